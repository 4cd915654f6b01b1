package relay

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/crypto/argon2"
)

const (
	argonMemory  = 19 << 10 // KiB
	argonTime    = 2
	argonThreads = 1
	argonKey     = 32
	argonSalt    = 16
	argonAtOnce  = 2  // each takes 19 MiB
	argonWaiting = 32 // more are turned away

	returnAfter = 100 * time.Millisecond

	rememberFor  = time.Minute // a credential that was verified
	maxRemember  = 1000
	maxAttempts  = 10_000 // names and addresses whose failures are remembered
	pairFailures = 10     // a minute, of one name from one address
	nameFailures = 60     // …of one name from anywhere
	fromFailures = 60     // …of any name from one address
	wrongTokens  = 60     // …of application tokens from one address
)

// passwords hashes and verifies passwords, a few at a time, and limits failures.
type passwords struct {
	slots   chan struct{}
	waiting atomic.Int64
	rest    *time.Timer // gives argon2's memory back when nobody has logged in for a while
	nobody  string      // a hash to verify against when the name is unknown: that takes the same time

	secret [32]byte
	mu     sync.Mutex
	known  map[[sha256.Size]byte]credential
	failed map[string]*bucket
}

// credential is a name and password that was found right.
type credential struct {
	user  int64
	hash  string // of the password; when the user's has changed since, the credential is void
	until time.Time
}

func newPasswords() *passwords {
	p := &passwords{slots: make(chan struct{}, argonAtOnce), known: map[[sha256.Size]byte]credential{}, failed: map[string]*bucket{}}
	p.rest = time.AfterFunc(returnAfter, debug.FreeOSMemory)
	_, _ = rand.Read(p.secret[:]) // never fails
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt)
	p.nobody = encodeHash(salt, make([]byte, argonKey))
	return p
}

// hash returns a password's hash in the usual form $argon2id$v=19$m=…,t=…,p=…$salt$key.
func (p *passwords) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // never fails
	key, err := p.derive(ctx, password, salt, argonTime, argonMemory, argonThreads, argonKey)
	if err != nil {
		return "", err
	}
	return encodeHash(salt, key), nil
}

func encodeHash(salt, key []byte) string {
	enc := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads, enc(salt), enc(key))
}

// argonHash is a stored hash, taken apart.
type argonHash struct {
	time, memory, threads int
	salt, key             []byte
}

// The bounds of a hash that is verified: what is imported may ask for more than a
// machine has.
const (
	maxArgonMemory = 256 << 10 // KiB
	maxArgonTime   = 32
)

// readHash reads $argon2id$v=19$m=…,t=…,p=…$salt$key.
func readHash(hash string) (h argonHash, err error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return h, errors.New("a stored password hash is not argon2id")
	}
	var version int
	_, err = fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &h.memory, &h.time, &h.threads)
	if err == nil {
		h.salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	}
	if err == nil {
		h.key, err = base64.RawStdEncoding.DecodeString(parts[5])
	}
	if err != nil {
		return h, fmt.Errorf("a stored password hash cannot be read: %w", err)
	}
	if version != argon2.Version || h.memory < 8 || h.memory > maxArgonMemory || h.time < 1 || h.time > maxArgonTime ||
		h.threads < 1 || h.threads > 255 || len(h.salt) < 8 || len(h.salt) > 64 || len(h.key) < 16 || len(h.key) > 64 {
		return h, errors.New("a stored password hash has parameters out of bounds")
	}
	return h, nil
}

// usableHash tells whether a hash can be verified.
func usableHash(hash string) bool {
	_, err := readHash(hash)
	return err == nil
}

// foreign tells whether a hash was made with other parameters than ours.
func foreign(hash string) bool {
	h, err := readHash(hash)
	return err == nil && (h.memory != argonMemory || h.time != argonTime || h.threads != argonThreads)
}

// verify tells whether a password has this hash.
func (p *passwords) verify(ctx context.Context, password, hash string) (bool, error) {
	h, err := readHash(hash)
	if err != nil {
		return false, err
	}
	got, err := p.derive(ctx, password, h.salt, uint32(h.time), uint32(h.memory), uint8(h.threads), uint32(len(h.key)))
	return err == nil && subtle.ConstantTimeCompare(got, h.key) == 1, err
}

// derive runs argon2id when its turn comes.
func (p *passwords) derive(ctx context.Context, password string, salt []byte, time, memory uint32, threads uint8, n uint32) ([]byte, error) {
	if p.waiting.Add(1) > argonWaiting {
		p.waiting.Add(-1)
		return nil, &Error{Kind: KindUnavailable, Message: "Too many people log in at this moment.", RetryAfter: comeBack}
	}
	defer p.waiting.Add(-1)
	select {
	case p.slots <- struct{}{}:
		defer func() {
			<-p.slots
			p.rest.Reset(returnAfter)
		}()
		return argon2.IDKey([]byte(password), salt, time, memory, threads, n), nil
	case <-ctx.Done():
		return nil, &Error{Kind: KindUnavailable, Message: "The request took too long.", RetryAfter: comeBack, Err: ctx.Err()}
	}
}

// mark is under what a credential is remembered: nothing that could be turned back into it.
func (p *passwords) mark(name, password string) [sha256.Size]byte {
	h := hmac.New(sha256.New, p.secret[:])
	fmt.Fprintf(h, "%d:%s%s", len(name), name, password)
	return [sha256.Size]byte(h.Sum(nil))
}

// recall returns the user that a credential was verified for a short while ago.
func (p *passwords) recall(mark [sha256.Size]byte) (credential, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.known[mark]
	if ok && time.Now().After(c.until) {
		delete(p.known, mark)
		ok = false
	}
	return c, ok
}

func (p *passwords) remember(mark [sha256.Size]byte, user int64, hash string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxRemember {
		clear(p.known)
	}
	p.known[mark] = credential{user: user, hash: hash, until: time.Now().Add(rememberFor)}
}

// failures are the counts that a failed attempt is put down to, narrowest first.
func failures(name, address string) []struct {
	key   string
	limit int
} {
	name, address = folded(name), network(address)
	return []struct {
		key   string
		limit int
	}{{"pair " + address + " " + name, pairFailures}, {"from " + address, fromFailures}, {"name " + name, nameFailures}}
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
	for _, f := range failures(name, address) {
		if wait := p.look(f.key, now, f.limit); wait > 0 {
			return wait
		}
	}
	return 0
}

// attempt takes one from each count. If one is used up it returns how long to wait and takes nothing: one address alone
// cannot use up a name for everybody, nor push out what is remembered of others.
func (p *passwords) attempt(name, address string) time.Duration {
	if wait := p.blocked(name, address); wait > 0 {
		return wait
	}
	now := time.Now()
	for _, f := range failures(name, address) {
		if wait := p.bucket(f.key).take(now, f.limit, f.limit); wait > 0 {
			return wait
		}
	}
	return 0
}

// look returns how long to wait for one of a count, without taking it.
func (p *passwords) look(key string, now time.Time, limit int) time.Duration {
	p.mu.Lock()
	b := p.failed[key]
	p.mu.Unlock()
	if b == nil {
		return 0
	}
	return b.look(now, limit, limit)
}

// forgive gives back what attempt took, after a success.
func (p *passwords) forgive(name, address string) {
	for _, f := range failures(name, address) {
		p.bucket(f.key).giveBack()
	}
}

func (p *passwords) bucket(key string) *bucket {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.failed[key]
	if b == nil {
		if len(p.failed) >= maxAttempts {
			p.forget(time.Now())
		}
		b = &bucket{}
		p.failed[key] = b
	}
	return b
}

// forget makes room: of the counts that are full again, else of all. p.mu is held.
func (p *passwords) forget(now time.Time) {
	maps.DeleteFunc(p.failed, func(_ string, b *bucket) bool { return b.idle(now) > time.Minute })
	if len(p.failed) >= maxAttempts {
		clear(p.failed)
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
