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

// rate spreads attempts over time while the homeserver limits the account's rate. A 429 concerns the room it was
// given for; when a second room gets one with no success in between, it is the account that is limited, and all
// rooms wait.
type rate struct {
	limited atomic.Bool

	mu    sync.Mutex
	room  int64 // that got the last 429; 0 after a success
	until time.Time
	last  time.Time // when the latest attempt may begin
	good  int

	wait429   time.Duration // what the last 429 asked for
	refusedAt time.Time
	since     time.Time // the first 429 of this time of limits
	passed    int       // events that were taken since
	passedAt  time.Time // when the last of them was
}

// limitShown is how long after the wait of a 429 the rate still counts as limited.
const limitShown = 30 * time.Second

// Interval returns how much time a message takes under the homeserver's limit now, 0 if it doesn't limit. It is measured: a homeserver may
// let several messages pass after each wait, and several rooms hear different rests of the same wait. Until enough was sent, it is the last wait.
func (p *rate) Interval() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shown() {
		return 0
	}
	if took := p.passedAt.Sub(p.since); p.passed > 0 && took >= p.wait429 {
		return took / time.Duration(p.passed)
	}
	return p.wait429
}

// shown reports whether the rate counts as limited. p.mu is held.
func (p *rate) shown() bool {
	return !p.refusedAt.IsZero() && time.Since(p.refusedAt) <= p.wait429+limitShown
}

// Wait blocks until an attempt may begin. It returns false if stopping is closed first.
func (p *rate) Wait(stopping <-chan struct{}) bool {
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
func (p *rate) reserve() time.Duration {
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

// Refused notes a 429 with the time it asked for.
func (p *rate) Refused(room int64, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.good = 0
	if !p.shown() {
		p.since, p.passed = time.Now(), 0
	}
	p.wait429, p.refusedAt = wait, time.Now()
	if p.room != 0 && p.room != room {
		until := time.Now().Add(min(wait, longestHold))
		if until.After(p.until) {
			p.until = until
		}
	}
	p.room = room
	p.limited.Store(true)
}

// Succeeded records that an event was taken.
func (p *rate) Succeeded() {
	if !p.limited.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room = 0
	p.passed++
	p.passedAt = time.Now()
	if p.good++; p.good >= paceTrust {
		p.good = 0
		p.limited.Store(false)
	}
}
