package delivery

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/matrix"
)

const (
	longestProbe = 30 * time.Second // between two looks whether the homeserver is back
	lockedProbe  = 5 * time.Minute  // …when only a person can correct it
	suspectProbe = 10 * time.Second // how long to wait for an answer while sync fails
	awayRooms    = 3                // rooms in a row that fail before the homeserver counts as away
)

// pause holds back all sending while the homeserver is away or the session is over. It begins paused: nothing is
// sent before the homeserver has answered once.
type pause struct {
	ask  func(context.Context) error
	log  *zap.Logger
	kick chan struct{} // look now

	mu       sync.Mutex
	paused   bool
	started  bool // it has ended once
	class    matrix.Class
	reason   string
	since    time.Time
	opened   chan struct{}      // closed when the pause ends
	failures int                // probes that failed
	flaps    int                // openings since the last success
	trouble  map[int64]struct{} // rooms that failed since the last success
	doubt    string             // why it is doubted that the homeserver is there, "" if it is not
	troubled atomic.Bool        // one of the two ends at the next success
}

// newPause returns a pause that ends when probe succeeds. Errors of probe must be [*matrix.SendError]s.
func newPause(probe func(context.Context) error, log *zap.Logger) *pause {
	return &pause{
		ask: probe, log: log, kick: make(chan struct{}, 1), paused: true, class: matrix.ClassAway, since: time.Now(),
		reason: "The homeserver has not answered yet.", opened: make(chan struct{}), trouble: map[int64]struct{}{},
	}
}

// Pass blocks while sending is paused. It returns false if stopping is closed.
func (p *pause) Pass(stopping <-chan struct{}) bool {
	p.mu.Lock()
	paused, opened := p.paused, p.opened
	p.mu.Unlock()
	if !paused {
		return true
	}
	select {
	case <-opened:
		return true
	case <-stopping:
		return false
	}
}

// Begin pauses sending for a reason; the probing begins.
func (p *pause) Begin(class matrix.Class, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.class, p.reason = class, reason
	if p.paused {
		return
	}
	p.paused, p.since, p.opened = true, time.Now(), make(chan struct{})
	clear(p.trouble)
	p.log.Warn("sending paused", zap.String("class", string(class)), zap.String("reason", reason))
	p.wake()
}

// Look makes the probing goroutine probe now.
func (p *pause) Look() {
	p.mu.Lock()
	p.failures, p.flaps = 0, 0
	p.mu.Unlock()
	p.wake()
}

func (p *pause) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// State returns why sending is paused and since when; "" if it is not.
func (p *pause) State() (reason string, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused {
		return "", time.Time{}
	}
	return p.reason, p.since
}

// Closed reports whether sending is paused.
func (p *pause) Closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// Suspect records that sync fails, and makes Run probe whether sending still works.
func (p *pause) Suspect(reason string) {
	p.mu.Lock()
	p.doubt = reason
	p.mu.Unlock()
	p.wake()
}

// Trust ends a suspicion.
func (p *pause) Trust() {
	p.mu.Lock()
	p.doubt = ""
	p.mu.Unlock()
}

// Doubtful returns why it is doubted that the homeserver is there, "" if it is not.
func (p *pause) Doubtful() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doubt
}

// verify asks whether the homeserver responds while sync fails. If it does not, sending pauses before a message
// has to find out.
func (p *pause) verify(ctx context.Context) {
	if p.Closed() || p.Doubtful() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, suspectProbe)
	defer cancel()
	err := p.ask(ctx)
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	failed := &matrix.SendError{Class: matrix.ClassRetry, Reason: "The homeserver does not answer.", Err: err}
	_ = errors.As(err, &failed)
	if failed.Class != matrix.ClassWait && (failed.Class != matrix.ClassRetry || failed.Status == 0) {
		p.Begin(failed.Class, failed.Sentence())
	}
}

// Failed counts a room that could not be reached. If room after room fails with no success between them, it is the
// homeserver that is away.
func (p *pause) Failed(room int64, reason string) {
	p.mu.Lock()
	p.trouble[room] = struct{}{}
	p.troubled.Store(true)
	away := len(p.trouble) >= awayRooms
	p.mu.Unlock()
	if away {
		p.Begin(matrix.ClassAway, reason)
	}
}

// Succeeded records that the homeserver works.
func (p *pause) Succeeded() {
	if !p.troubled.Load() {
		return
	}
	p.mu.Lock()
	clear(p.trouble)
	p.flaps = 0
	p.troubled.Store(false)
	p.mu.Unlock()
}

// Run probes while sending is paused and ends the pause when the homeserver answers: before is called before each end, which its
// error prevents, and after behind it.
func (p *pause) Run(stopping <-chan struct{}, before func() error, after func()) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-stopping
		cancel()
	}()
	for {
		var due <-chan time.Time
		if wait, closed := p.next(); closed {
			due = time.After(wait)
		}
		select {
		case <-due:
			if p.probe(ctx, before) {
				after()
			}
		case <-p.kick:
			p.verify(ctx)
		case <-stopping:
			return
		}
	}
}

// next returns whether sending is paused, and how long to wait before the next probe: not at all at first, and longer
// with each failure and each opening that brought no success.
func (p *pause) next() (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.failures + p.flaps
	if !p.paused || n == 0 {
		return 0, p.paused
	}
	longest := longestProbe
	if p.class == matrix.ClassLocked {
		longest = lockedProbe
	}
	d := min(longest, firstDelay<<min(n-1, 10))
	return d/2 + rand.N(d/2), true
}

// probe asks whether the homeserver responds, and ends the pause if so.
func (p *pause) probe(ctx context.Context, before func() error) (opened bool) {
	err := p.ask(ctx)
	if err == nil {
		err = before()
	}
	if err != nil {
		if ctx.Err() == nil {
			p.note(err)
		}
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = false
	p.failures = 0
	p.flaps++
	p.troubled.Store(true)
	close(p.opened)
	if !p.started {
		p.started = true
		p.log.Info("sending started", zap.Duration("after", time.Since(p.since)))
		return true
	}
	p.log.Info("sending resumed", zap.Duration("paused", time.Since(p.since)))
	return true
}

// note keeps the reason that a probe failed for.
func (p *pause) note(err error) {
	class, reason := matrix.ClassAway, "The homeserver does not answer."
	var e *matrix.SendError
	if errors.As(err, &e) {
		class = e.Class
		if e.Reason != "" {
			reason = e.Reason
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	if p.reason != reason && !errors.Is(err, matrix.ErrNoLogin) {
		p.log.Warn("nothing can be sent; messages wait, and `relay doctor` says what to do", zap.String("reason", reason), zap.Error(err))
	}
	p.class, p.reason = class, reason
}
