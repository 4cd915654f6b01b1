package notify

import (
	"crypto/rand"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// reserve is a file that keeps room on the disk for events: on a full one clients
// must still be able to delete, and deletions are told. While it is given away, no
// pulls are written, which would take the room at once.
type reserve struct {
	path  string
	tried time.Time
	spent atomic.Bool
}

const (
	reserveName  = "reserve"
	reserveSize  = 64 << 10 // some 70 deletions
	reserveEvery = 10 * time.Second
)

// renew makes the reserve if it is not there, trying now and then. What it holds
// does not compress.
func (r *reserve) renew() {
	if r == nil || time.Since(r.tried) < reserveEvery {
		return
	}
	r.tried = time.Now()
	if _, err := os.Stat(r.path); err == nil {
		r.spent.Store(false)
		return
	}
	content := make([]byte, reserveSize)
	_, _ = rand.Read(content) // never fails
	if os.WriteFile(r.path, content, 0o600) != nil {
		_ = os.Remove(r.path) // the next time, perhaps
		return
	}
	r.spent.Store(false)
}

// spend gives the room away and says whether there was some.
func (r *reserve) spend() bool {
	if r == nil || os.Remove(r.path) != nil {
		return false
	}
	r.spent.Store(true)
	return true
}

// isSpent says whether what is written now takes the room that was kept.
func (r *reserve) isSpent() bool { return r != nil && r.spent.Load() }

func noSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
