package collect

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Errors of a run.
var (
	// ErrIncomplete is inside the error of a run that skipped repositories.
	ErrIncomplete = errors.New("some repositories could not be read and were skipped")
	// ErrWriter means that a writer did not end, and so nothing more could be deleted.
	ErrWriter = errors.New("a request that writes does not end; is a registry stopped or frozen?")
	// ErrNoRoom means that a full storage has no room for the list of what is about to be
	// deleted, which a run beside registries needs.
	ErrNoRoom = errors.New("the storage is full: stop the registries that serve it and collect again")

	errLockLost = errors.New("the collector's lock was lost")
)

// Options says what a run does.
type Options struct {
	Store       storage.Store
	Coordinator storage.Coordinator
	Log         *zap.Logger // nil = none

	// Age is for how long a client may rely on what was confirmed to it. While no server is
	// on the storage nobody relies on anything, unless KeepAge is set.
	Age     time.Duration
	KeepAge bool
	// Release frees, however young it is, what a manifest has used that was deleted
	// since.
	Release bool
	// DeleteUntagged also deletes manifests to which no tag leads.
	DeleteUntagged bool
	// KeepUntagged selects repositories whose untagged manifests stay all the same: caches
	// of what was pulled by digest. Nil selects none.
	KeepUntagged func(oci.Name) bool
	DryRun       bool        // changes nothing
	Tell         func(Event) // nil = nobody; one call at a time, what stays of a repository and what goes in one piece each

	// Paced makes a run beside servers rest, so that it uses no more than a tenth of
	// the machine's processors.
	Paced bool
	// Remote has several workers also beside servers: the store is behind a network,
	// and a run does little but wait for it.
	Remote bool
	// Wait is how long the list may be published while writers that have not seen it
	// are waited for; 0 is a second. Writers who need what is listed wait as long.
	Wait time.Duration
}

// run is one collection.
type run struct {
	Options
	name    string
	begun   time.Time
	digests *digests
	orphans func() (users, error) // looked for when the first young link is found that nothing needs

	busy      chan struct{} // has a place for each worker but the first
	pace      pace
	lock      storage.Lease // nil in a dry run
	exclusive storage.Lease // nil = others served the storage from the beginning
	alone     atomic.Bool   // it is held still
	steps     atomic.Uint64
	telling   sync.Mutex
	deleting  sync.RWMutex // locked while something is listed, read while it is deleted at once

	mu      sync.Mutex // guards what follows
	report  Report
	waiting []*part // for the next list
	weight  int     // of these
}

// count writes into the report.
func (r *run) count(write func(p *Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	write(&r.report)
}

const (
	firstPatience = 15 * time.Minute // for writers that do not know of the run: longer than a commit may take
	listPatience  = time.Minute      // for those that have not seen a list, over all tries
	tryAgain      = time.Second
	endTime       = 10 * time.Second // for withdrawing what was published
)

// Run collects once. The error wraps storage.ErrBusy if another run is under way,
// and ErrIncomplete if repositories were skipped; the report is good then. When ctx
// ends, the run ends after the deletion under way, and the report says what it
// has done.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	r := newRun(o)
	err := r.run(ctx)
	report := r.report
	slices.SortStableFunc(report.Problems, func(a, b Problem) int { return cmp.Compare(a.Repository, b.Repository) })
	report.Duration = time.Since(r.begun)
	if err == nil && len(report.Problems) > 0 {
		err = fmt.Errorf("%w: %d", ErrIncomplete, len(report.Problems))
	}
	return report, err
}

func newRun(o Options) *run {
	o.Wait = cmp.Or(o.Wait, time.Second)
	r := &run{Options: o, name: rand.Text(), begun: time.Now(), digests: newDigests(), busy: make(chan struct{}, workers-1)}
	r.pace.machine = runtime.GOMAXPROCS(0)
	r.report.DryRun, r.report.Problems = o.DryRun, []Problem{}
	return r
}

func (r *run) run(ctx context.Context) (err error) {
	if empty, err := r.empty(ctx); empty || err != nil {
		return err
	}
	if r.DryRun {
		return r.collect(ctx)
	}
	if r.lock, err = r.Coordinator.Lock(ctx, storage.CollectorLock); err != nil {
		return noRoom(err)
	}
	defer r.lock.Release()
	defer r.end(ctx)
	if err = r.begin(ctx); err == nil {
		err = r.collect(ctx)
	}
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return r.removeMarks(ctx)
}

// empty says whether nothing has been stored yet. Then not even a lock is made.
func (r *run) empty(ctx context.Context) (bool, error) {
	for _, prefix := range []string{layout.Repositories, layout.Blobs} {
		for _, err := range r.Store.List(ctx, prefix, storage.ListOptions{Names: true}) {
			return false, err
		}
	}
	return true, nil
}

// publish replaces the list.
func (r *run) publish(ctx context.Context, keys ...string) error {
	err := r.Coordinator.Publish(ctx, storage.Pending{Run: r.name, Keys: keys})
	if errors.Is(err, storage.ErrExpired) {
		return fmt.Errorf("%w: %w", errLockLost, err)
	}
	return noRoom(err)
}

// noRoom is err, as ErrNoRoom where the storage is full.
func noRoom(err error) error {
	if errors.Is(err, storage.ErrNoSpace) {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return err
}

// withdraw ends the run for all writers.
func (r *run) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	err := r.Coordinator.Publish(ctx, storage.Pending{})
	if err != nil && !errors.Is(err, storage.ErrNoSpace) && !errors.Is(err, storage.ErrExpired) { // expired: it is void
		r.Log.Warn("cannot withdraw the list of the garbage collection; it is void when this process ends", zap.Error(err))
	}
}

// listed calls f while the parts are listed and every writer knows that. Where a writer
// keeps it waiting it withdraws the list and tries again; ErrWriter after
// listPatience. In a dry run, and while nobody serves, there are no lists.
func (r *run) listed(ctx context.Context, parts []*part, f func(context.Context) error) error {
	if r.DryRun {
		return f(ctx)
	}
	if done, err := r.atOnce(ctx, f); done || err != nil {
		return err
	}
	r.deleting.Lock() // one of several workers
	defer r.deleting.Unlock()
	keys := r.keys(parts)
	for begun := time.Now(); ; {
		err := r.tryListed(ctx, r.Wait, keys, f)
		if err == nil || !errors.Is(err, ErrWriter) || time.Since(begun) > listPatience {
			return err
		}
		select {
		case <-time.After(tryAgain):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *run) tryListed(ctx context.Context, patience time.Duration, keys []string, f func(context.Context) error) (err error) {
	if err := r.publish(ctx, keys...); err != nil {
		return err
	}
	defer func() {
		if err == nil || errors.Is(err, ErrWriter) { // else the run ends
			err = cmp.Or(r.publish(ctx), err)
		}
	}()
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := r.Coordinator.Barrier(wait); err != nil {
		if ctx.Err() == nil && wait.Err() != nil {
			return ErrWriter
		}
		return err
	}
	return f(ctx)
}

// collect reads all repositories and deletes what nothing needs: their links, then
// the bytes.
func (r *run) collect(ctx context.Context) error {
	r.orphans = sync.OnceValues(func() (users, error) { return r.readOrphans(ctx) })
	if err := r.collectRepositories(ctx); err != nil {
		return err
	}
	r.tellMarked()
	return r.collectBytes(ctx)
}

func absent(err error) bool { return errors.Is(err, storage.ErrNotExist) }
