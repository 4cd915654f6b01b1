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

	"go.uber.org/zap"

	"slipway/shared/durable"
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
	if err := durable.MakeDir(base, 0o777); err != nil {
		return nil, err
	}
	names, err := homes(base)
	if err != nil {
		return nil, err
	}
	for _, name := range append(names, newHomeName(), newHomeName(), newHomeName()) {
		dir := filepath.Join(base, name)
		if err := durable.MakeDir(dir, 0o700); err != nil {
			return nil, err
		}
		h, err := lockHome(dir)
		if err == nil {
			return h, nil
		}
		if !errors.Is(err, errTaken) {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil, fmt.Errorf("no directory below %s can be locked", base)
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

// lockHome locks a home until its lock is closed; errTaken if somebody has it, or
// if it was adopted and removed meanwhile.
func lockHome(dir string) (*home, error) {
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
	return &home{dir, f}, nil
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

// homes are ours and those that we are emptying.
func (n *Notifier) homes() []*home {
	if n.home == nil {
		return nil
	}
	return append([]*home{n.home}, n.adopted...)
}

// adopt takes over the homes of processes that are dead: their events are sent from where
// they are. What waits there for endpoints that are not configured stays.
func (n *Notifier) adopt() {
	n.keeping.Lock()
	defer n.keeping.Unlock()
	names, err := homes(n.base)
	if err != nil {
		n.log.Warn("cannot look for the queues of other processes", zap.Error(err))
		return
	}
	for _, name := range names {
		dir := filepath.Join(n.base, name)
		h, err := lockHome(dir)
		if errors.Is(err, errTaken) {
			continue // one of ours, too
		}
		events := 0
		if err == nil {
			n.adopted = append(n.adopted, h)
			events, err = n.attach(h)
		}
		if err != nil {
			n.log.Warn("cannot adopt the queues of a dead process", zap.String("directory", dir), zap.Error(err))
		}
		if events > 0 {
			n.log.Info("adopted the queues of a dead process", zap.Int("events", events))
		}
	}
	n.adopted = slices.DeleteFunc(n.adopted, n.release)
}

// attach gives each endpoint its queue in the home.
func (n *Notifier) attach(h *home) (events int, err error) {
	for _, e := range n.endpoints {
		dir := endpointDir(h.dir, e.name)
		if _, absent := os.Stat(dir); absent != nil {
			continue
		}
		count, failed := e.queue.attach(dir)
		events, err = events+count, errors.Join(err, failed)
	}
	return events, err
}

// release lets go of an adopted home if nothing waits in it for our endpoints, and
// removes it if nothing waits there at all.
func (n *Notifier) release(h *home) bool {
	waits := false
	for _, e := range n.endpoints {
		waits = e.queue.detach(endpointDir(h.dir, e.name)) || waits
	}
	if waits {
		return false
	}
	reports, err := readHome(h.dir)
	if err == nil && !slices.ContainsFunc(reports, func(r Report) bool { return r.Changes+r.Pulls > 0 }) {
		err = h.remove()
	}
	if err != nil {
		n.log.Warn("cannot remove the queues of a dead process", zap.String("directory", h.dir), zap.Error(err))
	}
	h.lock.Close()
	return true
}

// remove removes the home. Its lock goes last: who finds the directory without one makes
// another, and has what is left of the home.
func (h *home) remove() error {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != lockName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(h.dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	_, _ = os.Remove(h.lock.Name()), os.Remove(h.dir) // the next time, if need be
	return nil
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
