package account

import (
	"context"
	"maps"
	"strings"
	"time"
	"unicode"

	"slipway/relay/internal/limit"
)

// count is a counter of failed attempts and its limit per minute.
type count struct {
	key   string
	limit int
}

// failures returns the counters of a failed attempt, narrowest first. For an address that recently sent the right
// password, failures from other addresses don't count: otherwise a few addresses could lock a user out.
func (p *passwords) failures(name, address string) []count {
	name, address = folded(name), limit.Network(address)
	all := []count{{"pair " + address + " " + name, pairFailures}, {"from " + address, fromFailures}, {"name " + name, nameFailures}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.proven[all[0].key]; ok && time.Since(at) < provenFor {
		return all[:2]
	}
	return all
}

// folded returns the same text for all spellings that [strings.EqualFold] treats as one name. Lower case isn't enough.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// blocked returns how long to wait because of earlier failures; 0 if an attempt is allowed now.
func (p *passwords) blocked(name, address string) time.Duration {
	now := time.Now()
	for _, f := range p.failures(name, address) {
		if wait := p.peek(f.key, now, f.limit); wait > 0 {
			return wait
		}
	}
	return 0
}

// attempt takes one from each counter. If one is used up, it takes nothing and returns how long to wait: a single
// address can neither use up a name for everybody nor evict the counters of others.
func (p *passwords) attempt(name, address string) time.Duration {
	if wait := p.blocked(name, address); wait > 0 {
		return wait
	}
	now := time.Now()
	for _, f := range p.failures(name, address) {
		if wait := p.take(f.key, now, f.limit); wait > 0 {
			return wait
		}
	}
	return 0
}

// take takes one from a counter. While a shared database is unavailable, each relay counts alone.
func (p *passwords) take(key string, now time.Time, limit int) time.Duration {
	if p.shared != nil {
		if wait, err := p.shared.Count(context.Background(), key, 1, limit, limit); err == nil {
			return wait
		}
	}
	return p.bucket(key).Take(now, limit, limit)
}

// peek returns how long to wait for one of a counter, without taking it.
func (p *passwords) peek(key string, now time.Time, limit int) time.Duration {
	if p.shared != nil {
		if wait, err := p.shared.Look(context.Background(), key, 1, limit, limit); err == nil {
			return wait
		}
	}
	p.mu.Lock()
	b := p.failed[key]
	p.mu.Unlock()
	if b == nil {
		return 0
	}
	return b.Peek(now, limit, limit)
}

// succeeded records that the right password came from an address.
func (p *passwords) succeeded(name, address string) {
	p.forgive(name, address)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.proven) >= maxAttempts {
		maps.DeleteFunc(p.proven, func(_ string, at time.Time) bool { return time.Since(at) > provenFor/2 })
	}
	if len(p.proven) < maxAttempts {
		p.proven["pair "+limit.Network(address)+" "+folded(name)] = time.Now()
	}
}

// forgive undoes an attempt that was no failure.
func (p *passwords) forgive(name, address string) {
	for _, f := range p.failures(name, address) {
		if p.shared == nil || p.shared.GiveBack(context.Background(), f.key, 1) != nil {
			p.bucket(f.key).GiveBack()
		}
	}
}

func (p *passwords) bucket(key string) *limit.Bucket {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed.at(key)
}

// wrongToken counts a wrong application token from an address and returns how long the address must wait. first is
// true at most once a minute, when the limit is reached.
func (p *passwords) wrongToken(address string) (wait time.Duration, first bool) {
	wait = p.takeToken(limit.Network(address))
	if wait == 0 {
		return 0, false
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return wait, p.slowed.at(limit.Network(address)).Take(now, 1, 1) == 0
}

func (p *passwords) takeToken(network string) time.Duration {
	if p.shared != nil {
		if wait, err := p.shared.Count(context.Background(), "token "+network, 1, wrongTokens, wrongTokens); err == nil {
			return wait
		}
	}
	p.mu.Lock()
	b := p.tokens.at(network)
	p.mu.Unlock()
	return b.Take(time.Now(), wrongTokens, wrongTokens)
}

// buckets are counters by key.
type buckets map[string]*limit.Bucket

func (all buckets) at(key string) *limit.Bucket {
	b := all[key]
	if b == nil {
		if len(all) >= maxAttempts {
			all.forget(time.Now())
		}
		b = &limit.Bucket{}
		all[key] = b
	}
	return b
}

// forget evicts the counters that are full again, or else all of them.
func (all buckets) forget(now time.Time) {
	maps.DeleteFunc(all, func(_ string, b *limit.Bucket) bool { return b.Idle(now) > time.Minute })
	if len(all) >= maxAttempts {
		clear(all)
	}
}
