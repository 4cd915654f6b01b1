package auth

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sync/semaphore"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/clientaddr"
)

const (
	maxRemembered = 4096             // right passwords, guessed names and addresses
	maxWait       = 30 * time.Second // for a comparison

	maxGuessedName = 64 // bytes of a name that are remembered

	// bcrypt ignores what follows; `registry htpasswd` refuses to make such a password.
	maxPassword = 72
)

// passwords compares passwords with bcrypt hashes. One that was right is remembered and costs
// nothing. The others wait: at most half of the cores compare, one password of an address and of
// a name at a time, so that none fills the queue of others. Wrong passwords have a rate, and addresses that
// sent many of them wait apart from all others.
type passwords struct {
	keep             time.Duration // from the last use of a right password; negative = it is not remembered
	macs             sync.Pool
	right            *cache.Cache[sum, time.Time] // when it is forgotten
	addresses, names *guesses
	suspects         *semaphore.Weighted // of suspect addresses, before slots
	slots            *semaphore.Weighted
}

func newPasswords(keep time.Duration) *passwords {
	key := make([]byte, sha256.BlockSize)
	_, _ = rand.Read(key) // never fails
	slots := int64(max(1, runtime.NumCPU()/2))
	return &passwords{
		keep:      keep,
		macs:      sync.Pool{New: func() any { return &mac{hmac.New(sha256.New, key), make([]byte, 0, 256)} }},
		right:     cache.New[sum, time.Time](maxRemembered),
		addresses: newGuesses(), names: newGuesses(),
		suspects: semaphore.NewWeighted(slots), slots: semaphore.NewWeighted(slots),
	}
}

var errBusy = errors.New("too many passwords wait for their comparison")

// compare reports whether the password belongs to the hash, and whether that was found out
// just now. The error is errBusy or the context's.
func (p *passwords) compare(ctx context.Context, l credentials, addr, hash string) (matches, fresh bool, err error) {
	s := p.sum(l.user, l.password, hash)
	if p.remembered(s) {
		return true, false, nil
	}
	host, name := clientaddr.Network(addr), strings.Clone(string(l.user[:min(len(l.user), maxGuessedName)]))
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	fromAddress, err := p.addresses.enter(waiting, host)
	if err != nil {
		return false, false, cmp.Or(ctx.Err(), errBusy)
	}
	defer fromAddress.leave()
	if fromAddress.suspect() { // before the name's turn, which others want, too
		if p.suspects.Acquire(waiting, 1) != nil {
			return false, false, cmp.Or(ctx.Err(), errBusy)
		}
		defer p.suspects.Release(1)
	}
	forName, err := p.names.enter(waiting, name)
	if err != nil {
		return false, false, cmp.Or(ctx.Err(), errBusy)
	}
	defer forName.leave()
	if p.slots.Acquire(waiting, 1) != nil {
		return false, false, cmp.Or(ctx.Err(), errBusy)
	}
	defer p.slots.Release(1)
	if p.remembered(s) { // by a request that came first
		return true, false, nil
	}
	if bcrypt.CompareHashAndPassword([]byte(hash), l.password[:min(len(l.password), maxPassword)]) != nil {
		fromAddress.note()
		forName.note()
		return false, true, nil
	}
	p.right.Put(s, time.Now().Add(p.keep), 1)
	return true, true, nil
}

// remembered reports whether s was right lately. In the second half of its time it starts
// again, so that a client at work isn't interrupted by a comparison.
func (p *passwords) remembered(s sum) bool {
	until, ok := p.right.Get(s)
	left := time.Until(until)
	if !ok || left <= 0 {
		return false
	}
	if left < p.keep/2 {
		p.right.Put(s, time.Now().Add(p.keep), 1)
	}
	return true
}

// sum stands for a user, a password and the hash they were compared with. Only this process
// can make it, and it reveals nothing.
type sum [sha256.Size]byte

// mac is the pooled state that makes sums: hmac.New costs more than the sum.
type mac struct {
	hash.Hash
	buf []byte
}

// sum separates its parts by their lengths, so that different triples differ.
func (p *passwords) sum(user, password []byte, hash string) (out sum) {
	m := p.macs.Get().(*mac)
	m.Reset()
	m.buf = binary.AppendUvarint(m.buf[:0], uint64(len(user)))
	m.buf = append(m.buf, user...)
	m.buf = binary.AppendUvarint(m.buf, uint64(len(password)))
	m.buf = append(m.buf, password...)
	m.buf = append(m.buf, hash...)
	m.Write(m.buf)
	clear(m.buf) // the password doesn't stay behind
	m.buf = m.Sum(m.buf[:0])
	copy(out[:], m.buf)
	p.macs.Put(m)
	return out
}
