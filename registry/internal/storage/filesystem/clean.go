package filesystem

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Each process has a file "<instance>.lock" in the staging directory and holds
// a lock (flock) on it while it lives, so that another one knows at once what a
// crash has left.

// abandoned is the age from which on a file counts as left by a crash where there
// is no lock to tell. An Apply that is under way there for longer fails, which
// harms nobody else.
const abandoned = 2 * time.Minute

const lockSuffix = ".lock"

// makeStaging makes the staging directory, if need be, and locks this store's
// part of it.
func (s *Store) makeStaging() error {
	if err := s.mkdir(s.staging); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	for range attempts {
		fd, err := s.create(s.lockName(s.instance), unix.O_RDONLY)
		if err != nil {
			return err
		}
		if flock(fd, unix.LOCK_SH) == unix.EWOULDBLOCK || unlinked(fd) { //nolint:errorlint // a bare errno
			closeFD(fd) // another process deletes it, in the moment before it was locked
			continue
		}
		if old := s.alive.Swap(int64(fd)); old >= 0 {
			closeFD(int(old))
		}
		return nil
	}
	return unix.EAGAIN
}

// leaveStaging gives the lock back and deletes its file.
func (s *Store) leaveStaging() {
	if fd := s.alive.Swap(-1); fd >= 0 {
		drop(s.lockName(s.instance))
		closeFD(int(fd))
	}
}

func (s *Store) lockName(instance string) string { return s.staging + "/" + instance + lockSuffix }

// Clean implements storage.Cleaner: it deletes what processes that died left in
// the staging directory.
func (s *Store) Clean(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.clean(time.Now())
	drop(s.locks + "/reserve") // of the version before
	return nil
}

// clean is Clean at that time of the file system's.
func (s *Store) clean(now time.Time) {
	byInstance := map[string][]string{}
	s.listForeign(s.staging, s.staging+"/", byInstance)
	s.listForeign(s.rootDir(), s.staging+"-", byInstance) // trees that an older version removed on a full volume
	for instance, names := range byInstance {
		s.cleanInstance(instance, names, now)
	}
}

// listForeign adds what other instances have in dir and begins with prefix.
func (s *Store) listForeign(dir, prefix string, byInstance map[string][]string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := strings.TrimSuffix(dir, "/") + "/" + e.Name()
		rest, ok := strings.CutPrefix(name, prefix)
		instance, _, _ := strings.Cut(strings.TrimSuffix(rest, lockSuffix), "-")
		if ok && instance != s.instance {
			byInstance[instance] = append(byInstance[instance], name)
		}
	}
}

// cleanInstance holds the lock of a dead instance while it deletes what is its,
// the file of the lock last.
func (s *Store) cleanInstance(instance string, names []string, now time.Time) {
	lock := s.lockName(instance)
	fd, err := open(lock, s.lockMode(unix.LOCK_EX))
	if err == nil {
		defer closeFD(fd)
		err = flock(fd, unix.LOCK_EX)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return // it lives, or another process deletes it
	}
	dead := err == nil
	for _, name := range names {
		if name != lock && (dead || isOld(name, now)) {
			s.deleteForeign(name)
		}
	}
	if dead || isOld(lock, now) {
		drop(lock)
	}
}

// isOld goes by the change time, because a tree keeps its modification time
// when it is moved here.
func isOld(name string, now time.Time) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && now.Sub(time.Unix(st.Ctim.Unix())) > abandoned
}

// deleteForeign takes a file or tree from the process that left it, and deletes
// it. Without a lock that process may be alive after all and about to use it,
// and a directory must not be emptied then.
func (s *Store) deleteForeign(name string) {
	mine := s.tempName()
	if rename(name, mine) == nil {
		drop(mine)
	}
}
