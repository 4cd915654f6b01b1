package notify

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// home is a process's directory below the one in the configuration, and in it there
// is one for each endpoint. A file in it is locked while the process lives; the
// kernel drops the lock of one that dies. A home whose lock is free is adopted, at
// the start or by another process that serves the same storage: no event waits for
// a replica that does not come back.
type home struct {
	dir  string
	lock *os.File
}

const lockName = "lock"

// errTaken says that another process holds the lock.
var errTaken = errors.New("another process has it")

// openHome adopts a home that nobody has, or makes one.
func openHome(base string) (*home, error) {
	if err := makeDirs(base); err != nil {
		return nil, fmt.Errorf("the queue of notifications: %w", err)
	}
	names, err := homes(base)
	if err != nil {
		return nil, fmt.Errorf("the queue of notifications: %w", err)
	}
	for _, name := range append(names, newHomeName(), newHomeName(), newHomeName()) {
		dir := filepath.Join(base, name)
		if err := makeDir(dir, 0o700); err != nil {
			return nil, fmt.Errorf("the queue of notifications: %w", err)
		}
		lock, err := lockHome(dir)
		if err == nil {
			return &home{dir: dir, lock: lock}, nil
		}
		if !errors.Is(err, errTaken) {
			return nil, fmt.Errorf("the queue of notifications: %s: %w", dir, err)
		}
	}
	return nil, fmt.Errorf("the queue of notifications: no directory below %s can be locked", base)
}

func newHomeName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// homes lists the homes of all processes, living or not.
func homes(base string) ([]string, error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if b, err := hex.DecodeString(e.Name()); e.IsDir() && err == nil && len(b) == 8 {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// lockHome locks a home until the file is closed; errTaken if somebody has it, or
// if it was adopted and removed meanwhile.
func lockHome(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || err == nil && !isAt(f, path) {
		err = errTaken
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// isAt says whether the open file is still the one at path.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(open, there)
}

// endpointPrefix keeps names such as ".." from meaning something.
const endpointPrefix = "to-"

func endpointDir(home, name string) string {
	return filepath.Join(home, endpointPrefix+url.PathEscape(name))
}

// endpointsIn lists the names of the endpoints that a home has queues for.
func endpointsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		escaped, ok := strings.CutPrefix(e.Name(), endpointPrefix)
		if name, err := url.PathUnescape(escaped); ok && err == nil && e.IsDir() {
			names = append(names, name)
		}
	}
	return names, nil
}

// How often a process looks for homes that nobody has.
const adoptEvery = 15 * time.Second

// adopt takes what waits in the homes of processes that are dead into our own queues.
// What waits there for endpoints that are not configured stays.
func (n *Notifier) adopt() {
	sweepRemoved(n.base)
	names, err := homes(n.base)
	if err != nil {
		n.log.Warn("cannot look for the queues of other processes", zap.Error(err))
		return
	}
	for _, name := range names {
		dir := filepath.Join(n.base, name)
		lock, err := lockHome(dir)
		if errors.Is(err, errTaken) {
			continue // our own, too
		}
		events := 0
		if err == nil {
			events, err = n.adoptHome(dir)
			lock.Close()
		}
		if err != nil {
			n.log.Warn("cannot adopt the queues of a dead process", zap.String("directory", dir), zap.Error(err))
		}
		if events > 0 {
			n.log.Info("adopted the queues of a dead process", zap.Int("events", events))
		}
	}
}

// adoptHome removes the home if nothing is left in it.
func (n *Notifier) adoptHome(dir string) (events int, err error) {
	for _, e := range n.endpoints {
		count, err := n.adoptQueue(e, endpointDir(dir, e.name))
		if events += count; err != nil {
			return events, err
		}
	}
	reports, err := readHome(dir)
	if err != nil || slices.ContainsFunc(reports, func(r Report) bool { return r.Changes+r.Pulls > 0 }) {
		return events, err
	}
	return events, removeHome(dir)
}

// adoptQueue moves events to the end of the endpoint's queue, once that has room for
// them. Where that is interrupted a few of them are sent twice.
func (n *Notifier) adoptQueue(e *endpoint, dir string) (events int, err error) {
	if _, err := os.Stat(dir); err != nil {
		return 0, ignoreAbsent(err)
	}
	q, err := openQueue(dir, n.maxSize, e.log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	if own, more := e.queue.backlog(), q.backlog(); own.events() > 0 && own.bytes+more.bytes > n.maxSize {
		return 0, nil
	}
	for batch := q.first(commitBatch); len(batch) > 0; batch = q.first(commitBatch) {
		if err := n.committer.move(e, batch); err != nil {
			return events, err
		}
		for _, r := range batch {
			q.settle(r.seq)
		}
		events += len(batch)
	}
	e.countDropped()
	return events, os.RemoveAll(dir)
}

// removedPrefix marks a home that is being removed.
const removedPrefix = "gone-"

// removeHome takes the name away first, so that a process that starts meanwhile
// makes a new home instead of using this one.
func removeHome(dir string) error {
	removed := filepath.Join(filepath.Dir(dir), removedPrefix+filepath.Base(dir))
	if err := os.Rename(dir, removed); err != nil {
		return err
	}
	return os.RemoveAll(removed)
}

// sweepRemoved removes what a crash has left of removed homes.
func sweepRemoved(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removedPrefix) {
			_ = os.RemoveAll(filepath.Join(base, e.Name())) // again the next time
		}
	}
}

// warnUnknown logs queues whose endpoints the configuration does not have.
func (n *Notifier) warnUnknown() {
	reports, err := Read(n.base)
	if err != nil {
		return
	}
	for _, r := range reports {
		if r.Changes+r.Pulls > 0 && n.endpoint(r.Endpoint) == nil {
			n.log.Warn("events wait for an endpoint that is not configured or disabled; `registry events drop` removes them",
				zap.String("endpoint", r.Endpoint), zap.Int("events", r.Changes+r.Pulls))
		}
	}
}
