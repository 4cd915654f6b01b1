package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
	"time"
)

// sum stands for a user, a password and the hash they were compared with. Only
// this process can make it, and nothing can be read from it.
type sum [sha256.Size]byte

// summer makes sums with a key of its own.
type summer struct {
	pool sync.Pool
}

// mac is the state that a sum is made with; it is pooled because hmac.New
// costs more than the sum.
type mac struct {
	hash.Hash
	buf []byte
}

func newSummer() *summer {
	key := make([]byte, sha256.BlockSize)
	_, _ = rand.Read(key) // never fails
	return &summer{sync.Pool{New: func() any { return &mac{hmac.New(sha256.New, key), make([]byte, 0, 256)} }}}
}

// sum separates its parts by their lengths, so that no two triples meet.
func (s *summer) sum(user, password []byte, hash string) (out sum) {
	m := s.pool.Get().(*mac)
	m.Reset()
	m.buf = binary.AppendUvarint(m.buf[:0], uint64(len(user)))
	m.buf = append(m.buf, user...)
	m.buf = binary.AppendUvarint(m.buf, uint64(len(password)))
	m.buf = append(m.buf, password...)
	m.buf = append(m.buf, hash...)
	m.Write(m.buf)
	clear(m.buf) // the password does not stay behind
	m.buf = m.Sum(m.buf[:0])
	copy(out[:], m.buf)
	s.pool.Put(m)
	return out
}

// memo remembers sums until nobody has asked for them for a while, and a bounded
// number of them.
type memo struct {
	keep  time.Duration
	limit int
	start time.Time

	mu      sync.RWMutex
	expires map[sum]time.Duration // since start
}

func newMemo(keep time.Duration, limit int) *memo {
	return &memo{keep: keep, limit: limit, start: time.Now(), expires: map[sum]time.Duration{}}
}

// has says whether s is remembered. One that is asked for in the second half of
// its time starts again, so a client at work is not stopped every minute
// for a comparison; a changed hash has another sum and is never had.
func (m *memo) has(s sum) bool {
	m.mu.RLock()
	until, ok := m.expires[s]
	m.mu.RUnlock()
	left := until - time.Since(m.start)
	if !ok || left <= 0 {
		return false
	}
	if left < m.keep/2 {
		m.add(s)
	}
	return true
}

func (m *memo) add(s sum) {
	if m.keep <= 0 {
		return
	}
	now := time.Since(m.start)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.expires[s]; !ok && len(m.expires) >= m.limit {
		m.makeRoom(now)
	}
	m.expires[s] = now + m.keep
}

// makeRoom drops what has expired, or any one if nothing has.
func (m *memo) makeRoom(now time.Duration) {
	var victim sum
	for s, until := range m.expires {
		if now >= until {
			delete(m.expires, s)
		}
		victim = s
	}
	if len(m.expires) >= m.limit {
		delete(m.expires, victim)
	}
}
