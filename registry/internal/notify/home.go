package notify

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// Each process has a directory of its own below the one in the configuration, its
// home, and in it one for each endpoint. A file in it is locked while the process
// lives; the kernel drops the lock of one that dies. A home whose lock is free is
// taken over, at the start or by whoever serves the same storage: no event waits
// for a replica that does not come back.
type home struct {
	base    string
	dir     string
	lock    *os.File
	maxSize int64
	log     *zap.Logger
}

const lockName = "lock"

// errTaken says that another process holds the lock.
var errTaken = errors.New("another process has it")

// openHome takes over a home that nobody has, or makes one.
func openHome(base string, maxSize int64, log *zap.Logger) (*home, error) {
	if err := makeDirs(base); err != nil {
		return nil, fmt.Errorf("the queue of notifications: %w", err)
	}
	h := &home{base: base, maxSize: maxSize, log: log}
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
			h.dir, h.lock = dir, lock
			return h, nil
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
// if it was taken over and removed meanwhile.
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
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errTaken
	}
	if err == nil && !isAt(f, path) {
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

func (h *home) endpointDir(name string) string {
	return filepath.Join(h.dir, endpointPrefix+url.PathEscape(name))
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

func (h *home) close() error { return h.lock.Close() }

// How often a process looks for homes that nobody has, and for requests of
// `registry events`.
const (
	adoptEvery   = 15 * time.Second
	requestsPoll = time.Second
)

// keepHouse takes over what dead processes have left, and does what `registry
// events` asks for.
func (n *Notifier) keepHouse(ctx context.Context) {
	requests := time.NewTicker(requestsPoll)
	defer requests.Stop()
	n.adopt(ctx)
	n.sayStrangers()
	adopted := time.Now()
	for {
		select {
		case <-requests.C:
		case <-ctx.Done():
			return
		}
		n.obey()
		if time.Since(adopted) >= adoptEvery {
			n.adopt(ctx)
			adopted = time.Now()
		}
	}
}

// adopt takes over the homes whose processes are dead, until ctx ends: the next
// process goes on.
func (n *Notifier) adopt(ctx context.Context) {
	if n.Ready() != nil {
		return // there is no room even for what is our own
	}
	n.home.sweepGone()
	names, err := homes(n.home.base)
	if err != nil {
		n.log.Warn("the queues of other processes cannot be looked at", zap.Error(err))
		return
	}
	for _, name := range names {
		dir := filepath.Join(n.home.base, name)
		if dir == n.home.dir {
			continue
		}
		lock, err := lockHome(dir)
		if errors.Is(err, errTaken) {
			continue
		}
		moved := 0
		if err == nil {
			moved, err = n.moveIn(ctx, dir)
			lock.Close()
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			n.log.Warn("the queues that a dead process has left cannot be taken over", zap.String("directory", dir), zap.Error(err))
		} else if moved > 0 {
			n.log.Info("took over the events that a dead process has left", zap.Int("events", moved))
		}
	}
}

// moveIn puts the events of another home into our queues and removes it. Cut
// short, it goes on the next time, and some events are sent twice.
func (n *Notifier) moveIn(ctx context.Context, dir string) (moved int, err error) {
	names, err := endpointsIn(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		count, err := n.moveQueue(ctx, filepath.Join(dir, endpointPrefix+url.PathEscape(name)), name)
		moved += count
		if err != nil {
			return moved, err
		}
	}
	return moved, removeHome(dir)
}

// gonePrefix marks a home that is being removed.
const gonePrefix = "gone-"

// removeHome takes the name away first, so that whoever starts meanwhile makes a
// new home instead of moving into this one.
func removeHome(dir string) error {
	gone := filepath.Join(filepath.Dir(dir), gonePrefix+filepath.Base(dir))
	if err := os.Rename(dir, gone); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// sweepGone removes what a crash has left of removed homes.
func (h *home) sweepGone() {
	entries, _ := os.ReadDir(h.base)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), gonePrefix) {
			_ = os.RemoveAll(filepath.Join(h.base, e.Name())) // again the next time
		}
	}
}

// moveBatch is how many events are moved in one commit.
const moveBatch = 256

// moveQueue moves what another home has for an endpoint into our queue for it.
func (n *Notifier) moveQueue(ctx context.Context, dir, name string) (moved int, err error) {
	add, done, err := n.mover(name)
	if err != nil {
		return 0, err
	}
	for _, kind := range []string{changesDir, pullsDir} {
		count, err := moveLane(filepath.Join(dir, kind), func(entries []entry) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return add(kind, entries)
		})
		moved += count
		if err != nil {
			return moved, errors.Join(err, done())
		}
	}
	return moved, done()
}

// moveLane moves what waits in a lane, and leaves behind what has been added: what
// fails later does not repeat it at each attempt.
func moveLane(dir string, add func([]entry) error) (moved int, err error) {
	var batch []entry
	var end place
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		entries := batch
		batch = nil
		if err := add(entries); err != nil {
			return err
		}
		moved += len(entries)
		return leaveBehind(dir, end)
	}
	err = readLane(dir, func(r record, at place) error {
		batch, end = append(batch, entry{r.at, r.body}), at
		if len(batch) < moveBatch {
			return nil
		}
		return flush()
	})
	return moved, errors.Join(err, flush())
}

// mover returns what puts events into our queue for an endpoint. Changes go
// through the committer, which alone writes them while the registry runs; a queue
// whose endpoint is not configured nobody else uses.
func (n *Notifier) mover(name string) (add func(kind string, entries []entry) error, done func() error, err error) {
	if e := n.endpoint(name); e != nil {
		add = func(kind string, entries []entry) error {
			if kind == pullsDir {
				return e.queue.addPulls(entries)
			}
			jobs := make([]job, len(entries))
			for i, entry := range entries {
				jobs[i] = job{e, entry}
			}
			return n.committer.commit(jobs)
		}
		return add, func() error { return nil }, nil
	}
	q, err := openQueue(n.home.endpointDir(name), n.home.maxSize, n.log)
	if err != nil {
		return nil, nil, err
	}
	add = func(kind string, entries []entry) error {
		if kind == pullsDir {
			return q.addPulls(entries)
		}
		flush, err := q.addChanges(entries)
		if err != nil {
			return err
		}
		return flush()
	}
	return add, q.close, nil
}

// sayStrangers tells of queues whose endpoints the configuration does not have.
func (n *Notifier) sayStrangers() {
	reports, err := Read(n.home.base)
	if err != nil {
		return
	}
	for _, r := range reports {
		if r.Changes+r.Pulls > 0 && n.endpoint(r.Endpoint) == nil {
			n.log.Warn("events wait for an endpoint that is not configured or disabled; `registry events drop` takes them away",
				zap.String("endpoint", r.Endpoint), zap.Int("events", r.Changes+r.Pulls))
		}
	}
}

func (n *Notifier) endpoint(name string) *endpoint {
	for _, e := range n.endpoints {
		if e.name == name {
			return e
		}
	}
	return nil
}
