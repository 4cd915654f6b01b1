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
// kernel drops the lock of one that dies. A home whose lock is free is that of the next
// process that starts, and until then others that serve the same storage send what waits
// in it: no event waits for a replica that does not come back.
type home struct {
	dir  string
	lock *os.File
}

const lockName = "lock"

// errTaken says that another process holds the lock.
var errTaken = errors.New("another process has it")

// openHome takes a home that nobody has, or makes one.
func openHome(base string) (*home, error) {
	if err := durable.MakeDir(base, 0o777); err != nil {
		return nil, err
	}
	names, err := homes(base)
	if err != nil {
		return nil, err
	}
	var own [8]byte
	_, _ = rand.Read(own[:]) // never fails
	for _, name := range append(names, hex.EncodeToString(own[:])) {
		dir := filepath.Join(base, name)
		if err := durable.MakeDir(dir, 0o700); err != nil {
			return nil, err
		}
		if h, err := lockHome(dir); !errors.Is(err, errTaken) {
			return h, err
		}
	}
	return nil, fmt.Errorf("no directory below %s can be locked", base)
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

// lockHome locks a home until its lock is closed; errTaken if somebody has it.
func lockHome(dir string) (*home, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &home{dir, f}, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errTaken
	}
	return nil, &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
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

// adopt locks the homes of processes that are dead while something waits there for our
// endpoints, which is sent from where it is.
func (n *Notifier) adopt() {
	n.keeping.Lock()
	defer n.keeping.Unlock()
	names, err := homes(n.opts.Directory)
	if err != nil {
		n.opts.Log.Warn("cannot look for the queues of other processes", zap.Error(err))
		return
	}
	for _, name := range names {
		dir := filepath.Join(n.opts.Directory, name)
		if !slices.ContainsFunc(n.endpoints, func(e *endpoint) bool { return mayHold(endpointDir(dir, e.name)) }) {
			continue // a process that starts may have it
		}
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
			n.opts.Log.Warn("cannot adopt the queues of a dead process", zap.String("directory", dir), zap.Error(err))
		}
		if events > 0 {
			n.opts.Log.Info("adopted the queues of a dead process", zap.Int("events", events))
		}
	}
	n.adopted = slices.DeleteFunc(n.adopted, n.release)
}

// attach gives each endpoint its queue in the home.
func (n *Notifier) attach(h *home) (events int, err error) {
	for _, e := range n.endpoints {
		if dir := endpointDir(h.dir, e.name); mayHold(dir) {
			count, failed := e.queue.attach(dir, nil)
			events, err = events+count, errors.Join(err, failed)
		}
	}
	return events, err
}

// mayHold says whether there are files of events in an endpoint's directory. Those that
// nothing waits in go when their log is opened or closed.
func mayHold(dir string) bool {
	found, _ := fs.Glob(os.DirFS(dir), "*/*"+fileSuffix)
	return len(found) > 0
}

// release lets go of an adopted home unless something waits in it for our endpoints.
func (n *Notifier) release(h *home) bool {
	waits := false
	for _, e := range n.endpoints {
		waits = e.queue.detach(endpointDir(h.dir, e.name)) || waits
	}
	if !waits {
		h.lock.Close()
	}
	return !waits
}

// warnUnknown logs queues whose endpoints the configuration does not have.
func (n *Notifier) warnUnknown() {
	reports, err := Read(n.opts.Directory)
	if err != nil {
		return
	}
	for _, r := range reports {
		if r.Changes+r.Pulls > 0 && n.endpoint(r.Endpoint) == nil {
			n.opts.Log.Warn("events wait for an endpoint that is not configured or disabled; `registry events drop` removes them",
				zap.String("endpoint", r.Endpoint), zap.Int("events", r.Changes+r.Pulls))
		}
	}
}
