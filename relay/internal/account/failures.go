package account

import (
	"maps"
	"sync"
	"time"

	"slipway/relay/internal/request"
	"slipway/relay/internal/store"
)

const (
	maxAttempts  = 10_000 // names and addresses whose failures are remembered
	pairFailures = 10     // a minute, of one name from one address
	nameFailures = 60     // …of one name from anywhere
	fromFailures = 60     // …of any name from one address
	provenFor    = 30 * 24 * time.Hour

	// wrongTokens is the number of wrong tokens that an address may send per minute.
	wrongTokens = 60
)

// failures limits failed attempts per name and per address. Each relay counts its own.
type failures struct {
	mu     sync.Mutex
	failed buckets
	proven map[string]time.Time // when a name's right password last came from an address
	tokens buckets              // wrong tokens cost nothing, so they must not evict failures of passwords
	slowed buckets              // addresses of wrong tokens that were reported
}

func newFailures() *failures {
	return &failures{failed: buckets{}, proven: map[string]time.Time{}, tokens: buckets{}, slowed: buckets{}}
}

// count is a counter of failed attempts and its limit per minute.
type count struct {
	key   string
	limit int
}

// counts returns the counters of a failed attempt, narrowest first. For an address that recently sent the right
// password, failures from other addresses don't count: otherwise a few addresses could lock a user out.
func (f *failures) counts(name, address string) []count {
	all := []count{{pair(name, address), pairFailures}, {"from " + request.Network(address), fromFailures}, {"name " + store.Fold(name), nameFailures}}
	if f.Proven(name, address) {
		return all[:2]
	}
	return all
}

// Proven reports whether a name's right password recently came from an address.
func (f *failures) Proven(name, address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.proven[pair(name, address)]
	return ok && time.Since(at) < provenFor
}

func pair(name, address string) string {
	return "pair " + request.Network(address) + " " + store.Fold(name)
}

// Blocked returns how long to wait because of earlier failures; 0 if an attempt is allowed now.
func (f *failures) Blocked(name, address string) time.Duration {
	now := time.Now()
	for _, c := range f.counts(name, address) {
		f.mu.Lock()
		b := f.failed[c.key]
		f.mu.Unlock()
		if b == nil {
			continue
		}
		if wait := b.Peek(now, c.limit, c.limit); wait > 0 {
			return wait
		}
	}
	return 0
}

// Attempt takes one from each counter. If one is used up, it takes nothing and returns how long to wait: a single
// address can neither use up a name for everybody nor evict the counters of others.
func (f *failures) Attempt(name, address string) time.Duration {
	if wait := f.Blocked(name, address); wait > 0 {
		return wait
	}
	now := time.Now()
	for _, c := range f.counts(name, address) {
		if wait := f.bucket(c.key).Take(now, c.limit, c.limit); wait > 0 {
			return wait
		}
	}
	return 0
}

// Succeeded records that the right password came from an address.
func (f *failures) Succeeded(name, address string) {
	f.Forgive(name, address)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.proven) >= maxAttempts {
		maps.DeleteFunc(f.proven, func(_ string, at time.Time) bool { return time.Since(at) > provenFor/2 })
	}
	if len(f.proven) < maxAttempts {
		f.proven[pair(name, address)] = time.Now()
	}
}

// Forgive undoes an attempt that was no failure.
func (f *failures) Forgive(name, address string) {
	for _, c := range f.counts(name, address) {
		f.bucket(c.key).GiveBack()
	}
}

func (f *failures) bucket(key string) *request.Bucket {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed.at(key)
}

// WrongToken counts a wrong application token from an address and returns how long the address must wait. first is
// true at most once a minute, when the limit is reached.
func (f *failures) WrongToken(address string) (wait time.Duration, first bool) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	wait = f.tokens.at(request.Network(address)).Take(now, wrongTokens, wrongTokens)
	if wait == 0 {
		return 0, false
	}
	return wait, f.slowed.at(request.Network(address)).Take(now, 1, 1) == 0
}

// buckets are counters by key.
type buckets map[string]*request.Bucket

func (all buckets) at(key string) *request.Bucket {
	b := all[key]
	if b == nil {
		if len(all) >= maxAttempts {
			all.forget(time.Now())
		}
		b = &request.Bucket{}
		all[key] = b
	}
	return b
}

// forget evicts the counters that are full again, or else all of them.
func (all buckets) forget(now time.Time) {
	maps.DeleteFunc(all, func(_ string, b *request.Bucket) bool { return b.Idle(now) > time.Minute })
	if len(all) >= maxAttempts {
		clear(all)
	}
}
