package filesystem

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// # Who holds an upload
//
// In one process the request that comes later fences the one before. From another
// process it asks for the upload by a mark on the file, which the process of the
// holder looks for, while it writes and now and then: then it fences its own
// request, which unlocks the file.

const (
	// askedFor is a bit of the file's mode that means nothing otherwise. An upload that is
	// asked for in the moment in which it becomes a blob may keep it.
	askedFor = unix.S_IXUSR

	lookWriting     = time.Millisecond // how often a writer looks for the mark
	lookHeld        = 50 * time.Millisecond
	pollUpload      = time.Millisecond
	uploadPatience  = 5 * time.Second // then the other process is stopped
	errWrittenThere = "another process is writing it"
)

// hold makes u the writer of its key and returns the one before.
func (s *Store) hold(u *upload) (before *upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.holders[u.key]
	s.holders[u.key] = u
	if !s.watching {
		s.watching = true
		time.AfterFunc(lookHeld, s.watch)
	}
	return before
}

func (s *Store) unhold(u *upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders[u.key] == u {
		delete(s.holders, u.key)
	}
}

// watch looks for marks as long as there are uploads. One that is being written
// looks itself.
func (s *Store) watch() {
	s.mu.Lock()
	held := slices.Collect(maps.Values(s.holders))
	s.watching = len(held) > 0
	s.mu.Unlock()
	if len(held) == 0 {
		return
	}
	for _, u := range held {
		if u.mu.TryLock() {
			if u.applied == nil { // else it ends soon, and the others need not wait for that
				u.yield()
			}
			u.mu.Unlock()
		}
	}
	time.AfterFunc(lookHeld, s.watch)
}

// fence ends the request's hold for another one.
func (u *upload) fence() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pass()
}

// pass needs u.mu. A write under way has finished, so the size stands still; an
// Apply under way is waited for.
func (u *upload) pass() {
	for u.applied != nil {
		ended := u.applied
		u.mu.Unlock()
		<-ended
		u.mu.Lock()
	}
	u.taken = u.taken || u.fd >= 0
	u.close()
}

// yield passes the upload on if another process asks for it. It needs u.mu.
func (u *upload) yield() {
	now := time.Now()
	if u.fd < 0 || now.Sub(u.looked) < lookWriting {
		return
	}
	u.looked = now
	var st unix.Stat_t
	if unix.Fstat(u.fd, &st) == nil && st.Mode&askedFor != 0 {
		u.pass()
	}
}

// takeOver opens the upload, and asks the process that has it.
func (u *upload) takeOver(ctx context.Context) error {
	for begin := time.Now(); ; {
		err := u.open(0)
		if err != unix.EWOULDBLOCK { //nolint:errorlint // a bare errno
			return err
		}
		if time.Since(begin) > uploadPatience {
			return &fault{"resume", u.key, storage.ErrUploadTaken, errors.New(errWrittenThere)}
		}
		u.ask()
		select {
		case <-time.After(pollUpload):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (u *upload) ask() {
	var st unix.Stat_t
	if stat(u.name, &st) == nil && st.Mode&askedFor == 0 {
		_ = unix.Chmod(u.name, permissions(&st)|askedFor) // only its owner may; then the other one is waited for
	}
}

// answer takes the mark off the file that is open.
func (u *upload) answer(st *unix.Stat_t) {
	if st.Mode&askedFor != 0 {
		_ = unix.Fchmod(u.fd, permissions(st)&^askedFor)
	}
}

func permissions(st *unix.Stat_t) uint32 { return uint32(st.Mode) & 0o777 } //nolint:unconvert // not on every system
