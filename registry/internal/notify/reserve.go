package notify

import (
	"crypto/rand"
	"errors"
	"os"
	"syscall"
	"time"
)

// reserve is a file that keeps room on the disk for events: on a full one clients
// must still be able to delete, and deletions are told.
type reserve struct {
	path  string
	tried time.Time
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
		return
	}
	content := make([]byte, reserveSize)
	_, _ = rand.Read(content) // never fails
	if os.WriteFile(r.path, content, 0o600) != nil {
		_ = os.Remove(r.path) // the next time, perhaps
	}
}

// spend gives the room away and says whether there was some.
func (r *reserve) spend() bool { return r != nil && os.Remove(r.path) == nil }

func noSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
