package lease

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// touched is when sections have touched a key, by its hash.
type touched map[uint64]time.Time

// maxTouched bounds what is remembered. Where more is touched in some seconds, everything
// counts as touched.
const maxTouched = 1024

// all stands for every key.
const all = 0

func (t touched) add(key uint64, now time.Time, keep time.Duration) {
	if t[key] = now; len(t) <= maxTouched {
		return
	}
	for k, at := range t {
		if now.Sub(at) > keep {
			delete(t, k)
		}
	}
	if len(t) > maxTouched {
		clear(t)
		t[all] = now
	}
}

// since is what was touched after a time.
func (t touched) since(begun time.Time) hashes {
	var b []byte
	for key, at := range t {
		if !at.Before(begun) {
			b = binary.BigEndian.AppendUint64(b, key)
		}
	}
	return hashes(base64.StdEncoding.EncodeToString(b))
}

// has says whether the set holds the key, or stands for all; also if it cannot be read.
func (h hashes) has(key uint64) bool {
	set := map[uint64]bool{}
	err := h.addTo(set)
	return err != nil || set[key] || set[all]
}

// Touch says that the section is about to write what a deletion of key has to know of; see
// Coordinator.Touched.
func (s *section) Touch(key string) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.touched = append(s.touched, hash(key))
	s.l.touched.add(hash(key), time.Now(), s.l.o.Idle)
}

// Touched is Barrier. It says whether a section has touched key that lasted after begun, in
// any process. If that is too long ago to know, it says so, too.
func (l *Coordinator) Touched(ctx context.Context, key string, begun time.Time) (bool, error) {
	found := false
	if err := l.barrier(ctx, func(w record) {
		silent := w.Drained > 0 && !w.Tells // what is known by its name alone has drained nothing
		found = found || w.dead || silent || w.Touched.has(hash(key))
	}); err != nil {
		return true, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A process is registered for so long after its last section.
	found = found || time.Since(begun) > l.o.Idle || l.touched.since(begun).has(hash(key))
	for s := range l.sections {
		for _, k := range s.touched {
			found = found || k == hash(key)
		}
	}
	return found, nil
}
