package relay

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	longestProbe = 30 * time.Second // between two looks whether the homeserver is back
	lockedProbe  = 5 * time.Minute  // …when only a person can mend it
	suspectProbe = 10 * time.Second // how long to wait for a sign of life of a homeserver that sync hears nothing of
	awayRooms    = 3                // rooms in a row that fail before the homeserver counts as away
)

// gate holds back all sending while the homeserver is away or the session is over. It begins closed: nothing is
// sent before the homeserver has answered once.
type gate struct {
	sender Sender
	log    *zap.Logger
	kick   chan struct{} // look now

	mu       sync.Mutex
	closed   bool
	class    Class
	reason   string
	since    time.Time
	opened   chan struct{}      // closed when the gate opens
	failures int                // probes that failed
	flaps    int                // openings since the last success
	trouble  map[int64]struct{} // rooms that failed since the last success
	doubt    string             // why it is doubted that the homeserver is there, "" if it is not
	troubled atomic.Bool        // one of the two is to be forgotten at the next success
}

func newGate(s Sender, log *zap.Logger) *gate {
	return &gate{
		sender: s, log: log, kick: make(chan struct{}, 1), closed: true, class: ClassAway, since: time.Now(),
		reason: "The homeserver has not answered yet.", opened: make(chan struct{}), trouble: map[int64]struct{}{},
	}
}

// pass waits while the gate is closed. It answers false when stopping is closed.
func (g *gate) pass(stopping <-chan struct{}) bool {
	g.mu.Lock()
	closed, opened := g.closed, g.opened
	g.mu.Unlock()
	if !closed {
		return true
	}
	select {
	case <-opened:
		return true
	case <-stopping:
		return false
	}
}

// shut closes the gate for a reason; the probing begins.
func (g *gate) shut(class Class, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.class, g.reason = class, reason
	if g.closed {
		return
	}
	g.closed, g.since, g.opened = true, time.Now(), make(chan struct{})
	clear(g.trouble)
	g.log.Warn("sending pauses", zap.String("class", string(class)), zap.String("reason", reason))
	g.wake()
}

// look makes the probing goroutine probe now.
func (g *gate) look() {
	g.mu.Lock()
	g.failures, g.flaps = 0, 0
	g.mu.Unlock()
	g.wake()
}

func (g *gate) wake() {
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// state returns why the gate is closed and since when; "" if it is open.
func (g *gate) state() (reason string, since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		return "", time.Time{}
	}
	return g.reason, g.since
}

// suspect notes that sync hears nothing of the homeserver, and makes the probing goroutine find out whether sending is
// possible.
func (g *gate) suspect(reason string) {
	g.mu.Lock()
	g.doubt = reason
	g.mu.Unlock()
	g.wake()
}

// trust ends a suspicion.
func (g *gate) trust() {
	g.mu.Lock()
	g.doubt = ""
	g.mu.Unlock()
}

// doubtful returns why it is doubted that the homeserver is there, "" if it is not.
func (g *gate) doubtful() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.doubt
}

// verify asks a homeserver for a sign of life that sync hears nothing of. Without one sending pauses before a message
// has to find out.
func (g *gate) verify(ctx context.Context) {
	if reason, _ := g.state(); reason != "" || g.doubtful() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, suspectProbe)
	defer cancel()
	err := g.sender.Probe(ctx)
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	if failed := classOf(err); failed.Class != ClassWait && (failed.Class != ClassRetry || failed.Status == 0) {
		g.shut(failed.Class, failed.Sentence())
	}
}

// failed counts a room that could not be reached. If room after room fails with no success between them, it is the
// homeserver that is away.
func (g *gate) failed(room int64, reason string) {
	g.mu.Lock()
	g.trouble[room] = struct{}{}
	g.troubled.Store(true)
	away := len(g.trouble) >= awayRooms
	g.mu.Unlock()
	if away {
		g.shut(ClassAway, reason)
	}
}

// succeeded notes that the homeserver works.
func (g *gate) succeeded() {
	if !g.troubled.Load() {
		return
	}
	g.mu.Lock()
	clear(g.trouble)
	g.flaps = 0
	g.troubled.Store(false)
	g.mu.Unlock()
}

// run probes while the gate is closed and opens it when the homeserver answers: before is called before each opening
// and after behind it.
func (g *gate) run(stopping <-chan struct{}, before, after func()) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-stopping
		cancel()
	}()
	for {
		var due <-chan time.Time
		if wait, closed := g.next(); closed {
			due = time.After(wait)
		}
		select {
		case <-due:
			if g.probe(ctx, before) {
				after()
			}
		case <-g.kick:
			g.verify(ctx)
		case <-stopping:
			return
		}
	}
}

// next returns whether the gate is closed, and how long to wait before the next probe: not at all at first, and longer
// with each failure and each opening that brought no success.
func (g *gate) next() (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.failures + g.flaps
	if !g.closed || n == 0 {
		return 0, g.closed
	}
	longest := longestProbe
	if g.class == ClassLocked {
		longest = lockedProbe
	}
	d := min(longest, firstDelay<<min(n-1, 10))
	return d/2 + rand.N(d/2), true
}

// probe asks for a sign of life and opens the gate if there is one.
func (g *gate) probe(ctx context.Context, before func()) (opened bool) {
	if err := g.sender.Probe(ctx); err != nil {
		if ctx.Err() == nil {
			g.note(err)
		}
		return false
	}
	before()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	g.failures = 0
	g.flaps++
	g.troubled.Store(true)
	close(g.opened)
	g.log.Info("sending goes on", zap.Duration("paused", time.Since(g.since)))
	return true
}

// note keeps the reason that a probe failed for.
func (g *gate) note(err error) {
	class, reason := ClassAway, "The homeserver does not answer."
	var e *SendError
	if errors.As(err, &e) {
		class = e.Class
		if e.Reason != "" {
			reason = e.Reason
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures++
	if g.reason != reason && !errors.Is(err, ErrNoLogin) {
		g.log.Warn("the homeserver cannot be used; messages wait, and `relay doctor` says what to do", zap.String("reason", reason), zap.Error(err))
	}
	g.class, g.reason = class, reason
}
