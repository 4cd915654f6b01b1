package account

import (
	"context"
	"maps"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"slipway/relay/internal/limit"
)

// count is what a failed attempt is put down to, and how many of them a minute has.
type count struct {
	key   string
	limit int
}

// failures are the counts that a failed attempt is put down to, narrowest first. Where the right password came from
// lately, those from elsewhere do not matter: else a few addresses could lock a user out.
func (p *passwords) failures(name, address string) []count {
	name, address = folded(name), network(address)
	all := []count{{"pair " + address + " " + name, pairFailures}, {"from " + address, fromFailures}, {"name " + name, nameFailures}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.proven[all[0].key]; ok && time.Since(at) < provenFor {
		return all[:2]
	}
	return all
}

// folded is the same for all spellings that [strings.EqualFold] takes for one name, which
// are more than those that have one lower case.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// blocked returns how long to wait because of earlier failures, 0 if an attempt may be made now.
func (p *passwords) blocked(name, address string) time.Duration {
	now := time.Now()
	for _, f := range p.failures(name, address) {
		if wait := p.look(f.key, now, f.limit); wait > 0 {
			return wait
		}
	}
	return 0
}

// attempt takes one from each count. If one is used up it returns how long to wait and takes nothing: one address alone
// cannot use up a name for everybody, nor push out the counts of others.
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

// take takes one of a count. While the database of several relays is away each counts for itself.
func (p *passwords) take(key string, now time.Time, limit int) time.Duration {
	if p.shared != nil {
		if wait, err := p.shared.Count(context.Background(), key, 1, limit, limit); err == nil {
			return wait
		}
	}
	return p.bucket(key).Take(now, limit, limit)
}

// look returns how long to wait for one of a count, without taking it.
func (p *passwords) look(key string, now time.Time, limit int) time.Duration {
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
	return b.Look(now, limit, limit)
}

// succeeded notes that the right password came from an address.
func (p *passwords) succeeded(name, address string) {
	p.forgive(name, address)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.proven) >= maxAttempts {
		maps.DeleteFunc(p.proven, func(_ string, at time.Time) bool { return time.Since(at) > provenFor/2 })
	}
	if len(p.proven) < maxAttempts {
		p.proven["pair "+network(address)+" "+folded(name)] = time.Now()
	}
}

// forgive gives back what attempt took, as it was no failure.
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

// wrongToken counts a wrong application token from an address, and returns how long the address should wait; first is
// true where it has to, once a minute.
func (p *passwords) wrongToken(address string) (wait time.Duration, first bool) {
	wait = p.takeToken(network(address))
	if wait == 0 {
		return 0, false
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return wait, p.slowed.at(network(address)).Take(now, 1, 1) == 0
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

// buckets are counts by what they are about.
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

// forget makes room: of the counts that are full again, else of all.
func (all buckets) forget(now time.Time) {
	maps.DeleteFunc(all, func(_ string, b *limit.Bucket) bool { return b.Idle(now) > time.Minute })
	if len(all) >= maxAttempts {
		clear(all)
	}
}

// network returns what counts as one address: of IPv6 the first 64 bits.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap(); ip.Is6() {
		if n, err := ip.WithZone("").Prefix(64); err == nil {
			return n.String()
		}
	}
	return ip.String()
}
