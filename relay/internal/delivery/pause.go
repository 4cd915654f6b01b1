package delivery

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"slipway/relay/internal/matrix"

	"go.uber.org/zap"
)

const (
	longestProbe = 30 * time.Second // between two looks whether the homeserver is back
	lockedProbe  = 5 * time.Minute  // …when only a person can correct it
	suspectProbe = 10 * time.Second // how long to wait for a sign of life of a homeserver that sync hears nothing of
	awayRooms    = 3                // rooms in a row that fail before the homeserver counts as away
)

// pause holds back all sending while the homeserver is away or the session is over. It begins paused: nothing is
// sent before the homeserver has answered once.
type pause struct {
	sender Sender
	log    *zap.Logger
	kick   chan struct{} // look now

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

func newPause(s Sender, log *zap.Logger) *pause {
	return &pause{
		sender: s, log: log, kick: make(chan struct{}, 1), paused: true, class: matrix.ClassAway, since: time.Now(),
		reason: "The homeserver has not answered yet.", opened: make(chan struct{}), trouble: map[int64]struct{}{},
	}
}

// pass waits while sending is paused. It answers false when stopping is closed.
func (p *pause) pass(stopping <-chan struct{}) bool {
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

// begin pauses sending for a reason; the probing begins.
func (p *pause) begin(class matrix.Class, reason string) {
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

// look makes the probing goroutine probe now.
func (p *pause) look() {
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

// state returns why sending is paused and since when; "" if it is not.
func (p *pause) state() (reason string, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused {
		return "", time.Time{}
	}
	return p.reason, p.since
}

// closed reports whether sending is paused.
func (p *pause) closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// suspect notes that sync hears nothing of the homeserver, and makes the probing goroutine find out whether sending is
// possible.
func (p *pause) suspect(reason string) {
	p.mu.Lock()
	p.doubt = reason
	p.mu.Unlock()
	p.wake()
}

// trust ends a suspicion.
func (p *pause) trust() {
	p.mu.Lock()
	p.doubt = ""
	p.mu.Unlock()
}

// doubtful returns why it is doubted that the homeserver is there, "" if it is not.
func (p *pause) doubtful() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doubt
}

// verify asks a homeserver for a sign of life that sync hears nothing of. Without one sending pauses before a message
// has to find out.
func (p *pause) verify(ctx context.Context) {
	if p.closed() || p.doubtful() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, suspectProbe)
	defer cancel()
	err := p.sender.Probe(ctx)
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	if failed := classOf(err); failed.Class != matrix.ClassWait && (failed.Class != matrix.ClassRetry || failed.Status == 0) {
		p.begin(failed.Class, failed.Sentence())
	}
}

// failed counts a room that could not be reached. If room after room fails with no success between them, it is the
// homeserver that is away.
func (p *pause) failed(room int64, reason string) {
	p.mu.Lock()
	p.trouble[room] = struct{}{}
	p.troubled.Store(true)
	away := len(p.trouble) >= awayRooms
	p.mu.Unlock()
	if away {
		p.begin(matrix.ClassAway, reason)
	}
}

// succeeded notes that the homeserver works.
func (p *pause) succeeded() {
	if !p.troubled.Load() {
		return
	}
	p.mu.Lock()
	clear(p.trouble)
	p.flaps = 0
	p.troubled.Store(false)
	p.mu.Unlock()
}

// run probes while sending is paused and ends the pause when the homeserver answers: before is called before each end and
// after behind it.
func (p *pause) run(stopping <-chan struct{}, before, after func()) {
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

// probe asks for a sign of life and ends the pause if there is one.
func (p *pause) probe(ctx context.Context, before func()) (opened bool) {
	if err := p.sender.Probe(ctx); err != nil {
		if ctx.Err() == nil {
			p.note(err)
		}
		return false
	}
	before()
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
		p.log.Warn("the homeserver cannot be used; messages wait, and `relay doctor` says what to do", zap.String("reason", reason), zap.Error(err))
	}
	p.class, p.reason = class, reason
}
