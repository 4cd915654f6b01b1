package account

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/argon2"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/shared/shares"
)

const (
	argonMemory  = 19 << 10 // KiB
	argonTime    = 2
	argonThreads = 1
	argonKey     = 32
	argonSalt    = 16
	argonAtOnce  = 2  // each takes 19 MiB
	argonWaiting = 32 // at all addresses, with those that are served; more are turned away
	argonShare   = 8  // …at one address
	argonReserve = 8  // more places for those who proved themselves before

	returnAfter = 100 * time.Millisecond

	rememberFor = time.Minute // a credential that was verified
	maxRemember = 1000
)

// hasher hashes and verifies passwords with bounded parallelism, and remembers those that it verified.
type hasher struct {
	memory int          // KiB, of new hashes
	slots  *shares.Pool // by turns: one for an address, however many wait there
	rest   *time.Timer  // returns argon2's memory after a while without logins
	secret [32]byte

	mu      sync.Mutex
	known   map[[sha256.Size]byte]credential
	waiting places
	reserve places
}

// caller identifies the login whose password is verified.
type caller struct {
	Address string
	Proven  bool // the right password came from there before: strangers don't take its place
}

// turn returns the queue of the caller: a proven caller doesn't wait for strangers at the same address.
func (c caller) turn() string { return fmt.Sprint(request.Network(c.Address), " ", c.Proven) }

// places counts callers by address.
type places struct {
	all int
	at  map[string]int
}

// take takes a place of most, and reports whether there was one.
func (p *places) take(address string, most int) bool {
	if p.all == most || p.at[address] == argonShare {
		return false
	}
	p.all++
	p.at[address]++
	return true
}

func (p *places) giveBack(address string) {
	p.all--
	if p.at[address]--; p.at[address] == 0 {
		delete(p.at, address)
	}
}

// credential is a verified name and password.
type credential struct {
	user  int64
	hash  string
	until time.Time
}

// newHasher makes a hasher. A new hash takes memory KiB; 0 means 19 MiB.
func newHasher(memory int) *hasher {
	h := &hasher{
		memory: cmp.Or(memory, argonMemory),
		slots:  shares.New(argonAtOnce, 1), known: map[[sha256.Size]byte]credential{}, waiting: places{at: map[string]int{}}, reserve: places{at: map[string]int{}},
	}
	h.rest = time.AfterFunc(returnAfter, debug.FreeOSMemory)
	_, _ = rand.Read(h.secret[:]) // never fails
	return h
}

// Unusable returns a hash that no password has. Verifying against it takes the usual time.
func (h *hasher) Unusable() string {
	salt, key := make([]byte, argonSalt), make([]byte, argonKey)
	_, _ = rand.Read(salt) // never fails
	_, _ = rand.Read(key)
	return h.encode(salt, key)
}

// Hash returns a password's hash in the usual form $argon2id$v=19$m=…,t=…,p=…$salt$key. The caller must have logged in.
func (h *hasher) Hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // never fails
	key, err := h.derive(ctx, caller{Proven: true}, password, salt, argonTime, uint32(h.memory), argonThreads, argonKey)
	if err != nil {
		return "", err
	}
	return h.encode(salt, key), nil
}

func (h *hasher) encode(salt, key []byte) string {
	enc := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.memory, argonTime, argonThreads, enc(salt), enc(key))
}

// Verify reports whether a password has this hash.
func (h *hasher) Verify(ctx context.Context, from caller, password, hash string) (bool, error) {
	parsed, err := parse(hash)
	if err != nil {
		return false, err
	}
	got, err := h.derive(ctx, from, password, parsed.salt, uint32(parsed.time), uint32(parsed.memory), uint8(parsed.threads), uint32(len(parsed.key)))
	return err == nil && subtle.ConstantTimeCompare(got, parsed.key) == 1, err
}

// enter takes a place for a caller; leave gives it back. ok is false if there is none.
func (h *hasher) enter(from caller) (leave func(), ok bool) {
	address := request.Network(from.Address)
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.waiting
	if !p.take(address, argonWaiting) {
		if p = &h.reserve; !from.Proven || !p.take(address, argonReserve) {
			return nil, false
		}
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		p.giveBack(address)
	}, true
}

// derive runs argon2id once a slot is free.
func (h *hasher) derive(ctx context.Context, from caller, password string, salt []byte, time, memory uint32, threads uint8, n uint32) ([]byte, error) {
	leave, ok := h.enter(from)
	if !ok {
		return nil, &refusal.Error{Kind: refusal.KindUnavailable, Message: "Too many logins at the same time. Try again.", RetryAfter: refusal.RetryAfter}
	}
	defer leave()
	slot, err := h.slots.Take(ctx, from.turn(), 1)
	if err != nil {
		return nil, &refusal.Error{Kind: refusal.KindUnavailable, Message: "The request took too long.", RetryAfter: refusal.RetryAfter, Err: err}
	}
	defer func() {
		slot.Release()
		h.rest.Reset(returnAfter)
	}()
	return argon2.IDKey([]byte(password), salt, time, memory, threads, n), nil
}

// mark returns the key of a remembered credential: a keyed hash.
func (h *hasher) mark(name, password string) [sha256.Size]byte {
	sum := hmac.New(sha256.New, h.secret[:])
	fmt.Fprintf(sum, "%d:%s%s", len(name), name, password)
	return [sha256.Size]byte(sum.Sum(nil))
}

// Recall returns the user of a name and password that were verified recently, and the hash that they had then. The caller
// must compare it with the present one.
func (h *hasher) Recall(name, password string) (user int64, hash string, ok bool) {
	mark := h.mark(name, password)
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.known[mark]
	if ok && time.Now().After(c.until) {
		delete(h.known, mark)
		return 0, "", false
	}
	return c.user, c.hash, ok
}

// Remember keeps a name and password that were verified, for a minute.
func (h *hasher) Remember(name, password string, user int64, hash string) {
	mark := h.mark(name, password)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.known) >= maxRemember {
		clear(h.known)
	}
	h.known[mark] = credential{user: user, hash: hash, until: time.Now().Add(rememberFor)}
}

// argonHash is a parsed hash.
type argonHash struct {
	time, memory, threads int
	salt, key             []byte
}

// Bounds of hashes that are verified: an imported one may ask for more memory than the machine has.
const (
	maxArgonMemory = 256 << 10 // KiB
	maxArgonTime   = 32
)

// parse reads $argon2id$v=19$m=…,t=…,p=…$salt$key.
func parse(hash string) (h argonHash, err error) {
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

// usable reports whether a hash can be verified.
func usable(hash string) bool {
	_, err := parse(hash)
	return err == nil
}

// foreign reports whether a hash has other parameters than new ones.
func (h *hasher) foreign(hash string) bool {
	p, err := parse(hash)
	return err == nil && (p.memory != h.memory || p.time != argonTime || p.threads != argonThreads)
}
