package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"

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
	provenFor    = 30 * 24 * time.Hour
)

// passwords hashes and verifies passwords with bounded parallelism, and limits failures.
type passwords struct {
	slots   chan struct{}
	waiting atomic.Int64
	rest    *time.Timer // returns argon2's memory after a while without logins
	nobody  string      // verified against for unknown names, which then take the same time

	shared *store.Store // where several relays count together; nil where there is only one
	secret [32]byte
	mu     sync.Mutex
	known  map[[sha256.Size]byte]credential
	failed buckets
	proven map[string]time.Time // when a name's right password last came from an address
	tokens buckets              // …with application tokens: they cost nothing, so they must not push out what is remembered of passwords
	slowed buckets              // addresses of wrong tokens that the log has named
}

// credential is a verified name and password.
type credential struct {
	user  int64
	hash  string // of the password; when the user's has changed since, the credential is void
	until time.Time
}

func newPasswords() *passwords {
	p := &passwords{slots: make(chan struct{}, argonAtOnce), known: map[[sha256.Size]byte]credential{}, failed: buckets{}, proven: map[string]time.Time{}, tokens: buckets{}, slowed: buckets{}}
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

// verify reports whether a password has this hash.
func (p *passwords) verify(ctx context.Context, password, hash string) (bool, error) {
	h, err := readHash(hash)
	if err != nil {
		return false, err
	}
	got, err := p.derive(ctx, password, h.salt, uint32(h.time), uint32(h.memory), uint8(h.threads), uint32(len(h.key)))
	return err == nil && subtle.ConstantTimeCompare(got, h.key) == 1, err
}

// derive runs argon2id once a slot is free.
func (p *passwords) derive(ctx context.Context, password string, salt []byte, time, memory uint32, threads uint8, n uint32) ([]byte, error) {
	if p.waiting.Add(1) > argonWaiting {
		p.waiting.Add(-1)
		return nil, &refusal.Error{Kind: refusal.KindUnavailable, Message: "Too many logins at the same time. Try again.", RetryAfter: refusal.RetryAfter}
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
		return nil, &refusal.Error{Kind: refusal.KindUnavailable, Message: "The request took too long.", RetryAfter: refusal.RetryAfter, Err: ctx.Err()}
	}
}

// mark returns the key of a remembered credential: a keyed hash.
func (p *passwords) mark(name, password string) [sha256.Size]byte {
	h := hmac.New(sha256.New, p.secret[:])
	fmt.Fprintf(h, "%d:%s%s", len(name), name, password)
	return [sha256.Size]byte(h.Sum(nil))
}

// recall returns a credential that was verified recently.
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
