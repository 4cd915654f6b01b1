package notify

import (
	"crypto/rand"
	"errors"
	"os"
	"syscall"
)

// reserve is a file that keeps room on the disk for events: on a full one clients
// must still be able to delete, and deletions are told. While it is given away, pulls
// wait in memory: they would take the room at once. A nil one keeps nothing.
type reserve struct{ path string }

const (
	reserveName = "reserve"
	reserveSize = 64 << 10 // some 70 deletions
)

// renew makes the reserve if it is not there. What it holds does not compress.
func (r *reserve) renew() {
	if !r.isSpent() {
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

// isSpent says whether what is written now takes the room that was kept.
func (r *reserve) isSpent() bool {
	if r == nil {
		return false
	}
	_, err := os.Stat(r.path)
	return err != nil
}

func noSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
