package delivery

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	paceGap     = 50 * time.Millisecond // between two attempts while the account's rate is limited
	paceTrust   = 30                    // successes in a row that end it
	longestHold = 5 * time.Minute       // that one room's 429 may hold back the others
)

// accountRate spreads attempts over time while the homeserver limits the account's rate. A 429 concerns the room it was
// given for; when a second room gets one with no success in between, it is the account that is limited, and all
// rooms wait.
type accountRate struct {
	limited atomic.Bool

	mu    sync.Mutex
	room  int64 // that got the last 429; 0 after a success
	until time.Time
	last  time.Time // when the latest attempt may begin
	good  int
}

// wait returns when an attempt may begin; false when stopping is closed before.
func (p *accountRate) wait(stopping <-chan struct{}) bool {
	for p.limited.Load() {
		d := p.reserve()
		if d <= 0 {
			return true
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-stopping:
			timer.Stop()
			return false
		}
	}
	return true
}

// reserve returns how long to wait before asking again; 0 gives the turn.
func (p *accountRate) reserve() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	at := p.until
	if next := p.last.Add(paceGap); next.After(at) {
		at = next
	}
	if d := at.Sub(now); d > 0 {
		return d
	}
	p.last = now
	return 0
}

// refused notes a 429 with the time it asked for.
func (p *accountRate) refused(room int64, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.good = 0
	if p.room != 0 && p.room != room {
		until := time.Now().Add(min(wait, longestHold))
		if until.After(p.until) {
			p.until = until
		}
	}
	p.room = room
	p.limited.Store(true)
}

// succeeded notes that an event was taken.
func (p *accountRate) succeeded() {
	if !p.limited.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room = 0
	if p.good++; p.good >= paceTrust {
		p.good = 0
		p.limited.Store(false)
	}
}
