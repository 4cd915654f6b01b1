package auth

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"slipway/registry/internal/cache"
)

const (
	maxWaiting = 256 // for the comparisons of one address or one name

	// After a wrong password, the rate of comparisons for its address and for its name.
	guessRate  = 10 // per second
	guessBurst = 20

	// An address with more wrong passwords is suspect until it has sent none for suspectFor.
	tolerated  = 3
	suspectFor = 10 * time.Minute
)

// guesses gives each key, an address or a name, one comparison at a time, and a rate after a
// wrong password. So a burst from one address takes one place in the queue of all.
type guesses struct {
	mu     sync.Mutex // held while a limit is looked up or made
	limits *cache.Cache[string, *limit]
}

type limit struct {
	turn  turn
	wrong atomic.Int32 // passwords; from the first on the rate applies
	last  atomic.Int64 // when the last wrong one came, in nanoseconds
	rate  *rate.Limiter
}

func newGuesses() *guesses { return &guesses{limits: cache.New[string, *limit](maxRemembered)} }

func (g *guesses) of(key string) *limit {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, known := g.limits.Get(key)
	if !known {
		l = &limit{rate: rate.NewLimiter(guessRate, guessBurst)}
		g.limits.Put(key, l, 1)
	}
	return l
}

// enter waits for the key's turn, which lasts until [limit.leave]. It fails immediately if its turn
// comes too late for the context, and if too many newer ones wait.
func (g *guesses) enter(ctx context.Context, key string) (l *limit, err error) {
	l = g.of(key)
	if err := l.turn.take(ctx); err != nil {
		return nil, err
	}
	if l.wrong.Load() > 0 {
		if err := l.rate.Wait(ctx); err != nil {
			l.leave()
			return nil, err
		}
	}
	return l, nil
}

func (l *limit) leave() { l.turn.pass() }

// note notes a wrong password.
func (l *limit) note() {
	now := time.Now().UnixNano()
	if now-l.last.Swap(now) > int64(suspectFor) {
		l.wrong.Store(0)
	}
	l.wrong.Add(1)
}

// suspect reports whether many passwords were wrong lately.
func (l *limit) suspect() bool {
	return l.wrong.Load() > tolerated && time.Now().UnixNano()-l.last.Load() < int64(suspectFor)
}

// turn is held by one caller at a time. The newest of those who wait is next, and if too many wait, the
// oldest is refused: a client that guesses without end waits for its own guesses, and a login that comes
// among them doesn't, unless a newer guess comes before the next comparison begins.
type turn struct {
	mu      sync.Mutex
	held    bool
	waiting []chan bool // oldest first; receives whether it got the turn
}

// take waits for the turn. The error is errBusy or the context's.
func (t *turn) take(ctx context.Context) error {
	t.mu.Lock()
	if !t.held {
		t.held = true
		t.mu.Unlock()
		return nil
	}
	if len(t.waiting) == maxWaiting {
		t.waiting[0] <- false
		t.waiting = slices.Delete(t.waiting, 0, 1)
	}
	mine := make(chan bool, 1)
	t.waiting = append(t.waiting, mine)
	t.mu.Unlock()
	select {
	case got := <-mine:
		if !got {
			return errBusy
		}
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, mine)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 && <-mine { // it came at the same moment
		t.pass()
	}
	return ctx.Err()
}

// pass gives the turn to the next.
func (t *turn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.waiting); n > 0 {
		t.waiting[n-1] <- true
		t.waiting = t.waiting[:n-1]
		return
	}
	t.held = false
}
