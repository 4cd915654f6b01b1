// Package collect frees the bytes that no manifest needs any more, while
// registries serve and clients push.
//
// A writer renews what it is going to rely on (storage.Attempt); a collection deletes
// only what nobody has renewed since it began (storage.Collection). A run reads the
// repositories in any order and deletes in batches what nothing needs and nobody has renewed:
// manifests before what they need, then links, then histories of tags. At the end it lists the
// bytes and deletes those to which no link leads. A manifest that was renewed meanwhile is kept
// with all that it needs.
//
// model_test.go and what begins with its name have the protocol as a model with every interleaving;
// docs/decisions/0009-garbage-collection.md has the argument.
package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// ErrIncomplete is inside the error of a run that skipped repositories.
var ErrIncomplete = errors.New("some repositories could not be read and were skipped")

// Options configures a run.
type Options struct {
	Store storage.Store
	Log   *zap.Logger // nil = none

	// Age is the grace period: how long a client may rely on what was confirmed to it.
	// While no process serves the store nothing is too young, unless KeepAge is set.
	Age     time.Duration
	KeepAge bool
	// IdleAge is the grace period of repositories without an unfinished upload that began
	// within Age, if it is shorter; 0 = Age.
	IdleAge time.Duration
	// DeleteUntagged also deletes manifests to which no tag leads.
	DeleteUntagged bool
	// KeepUntagged selects repositories whose untagged manifests always stay: caches
	// of what was pulled by digest. Nil selects none.
	KeepUntagged func(oci.Name) bool
	// PurgeDeleted gives up what was deleted and could still be restored, unless the grace period keeps its bytes.
	PurgeDeleted bool
	DryRun       bool               // changes nothing
	Tell         func(Event)        // nil = no callback; one call at a time
	Progress     *schedule.Progress // nil = not shown

	// Paced makes a run rest, so that it uses no more than a tenth of the machine's
	// processors.
	Paced bool
	// Remote means that the store is behind a network: several workers share the run, which
	// does little but wait.
	Remote bool
}

// run is one collection.
type run struct {
	Options
	begun   time.Time
	pace    pace
	workers chan struct{} // holds a token for each worker but the first

	collection storage.Collection // nil in a dry run
	start      time.Time          // by the store's clock
	offline    bool               // in a dry run: the run would be
	visited    map[oci.Name]bool  // repositories

	telling, deleting sync.Mutex

	mu      sync.Mutex // guards what follows
	marks   marks
	report  Report
	pending []*repository // with garbage
	waiting int           // objects of these
	garbage []garbageBytes
}

// maxWorkers bounds the requests to a remote store, and offline the threads that wait for
// a file system.
const maxWorkers = 16

// longWait is the time after which somebody who watches a run is told that it waits.
const longWait = 10 * time.Second

// perDelete is about how many objects are deleted at a time. On some stores each deletion
// takes half a minute, however many there are.
const perDelete = 20_000

// Run collects once. The error wraps storage.ErrBusy if another run is under way,
// and ErrIncomplete if repositories were skipped; the report is good then. When ctx
// ends, the run ends after the deletion under way, and the report describes what it
// has done.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Progress == nil {
		o.Progress = &schedule.Progress{}
	}
	r := &run{Options: o, begun: time.Now(), marks: marks{}, visited: map[oci.Name]bool{}, workers: make(chan struct{}, maxWorkers-1)}
	r.pace.machine, r.pace.on, r.pace.last = runtime.GOMAXPROCS(0), o.Paced, r.begun
	r.report = Report{DryRun: o.DryRun, Problems: []Problem{}}
	err := r.run(ctx)
	slices.SortStableFunc(r.report.Problems, func(a, b Problem) int { return cmp.Compare(a.Repository, b.Repository) })
	r.report.Duration = time.Since(r.begun)
	if err == nil && len(r.report.Problems) > 0 {
		err = fmt.Errorf("%w: %d", ErrIncomplete, len(r.report.Problems))
	}
	return r.report, err
}

// RunScheduled collects once, as a schedule in a server does: paced, with a summary
// in the log. Where another process collects, it leaves that to it. metrics may be
// nil.
func RunScheduled(ctx context.Context, o Options, metrics *Metrics) (Report, error) {
	o.Paced = true
	report, err := Run(ctx, o)
	if ctx.Err() != nil {
		return report, ctx.Err()
	}
	metrics.observe(&report, err)
	report.log(o.Log, err)
	return report, err
}

func (r *run) run(ctx context.Context) error {
	if empty, err := r.empty(ctx); empty || err != nil {
		return err
	}
	r.start = time.Now()
	if !r.DryRun {
		r.Progress.Enter("waiting for running requests to end")
		waiting := time.AfterFunc(longWait, func() { r.emit(Event{Kind: Waiting}) })
		c, err := r.Store.Collect(ctx)
		waiting.Stop()
		if err != nil {
			return err
		}
		defer c.Close()
		r.collection, r.start, r.offline = c, c.Start(), c.Offline()
	} else if unlock, err := r.Store.Lock(ctx, storage.LockServers, false); err == nil {
		unlock() // a dry run keeps no server from starting
		r.offline = true
	}
	r.Progress.Enter("reading repositories")
	if err := r.collectRepositories(ctx); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	r.emit(Event{Kind: Marked, Marked: int64(len(r.marks))})
	return cmp.Or(context.Cause(ctx), r.collectBytes(ctx))
}

// empty reports whether nothing has been stored yet. Then not even a lock is made.
func (r *run) empty(ctx context.Context) (bool, error) {
	for _, prefix := range []string{layout.Repositories, layout.Blobs, layout.Trash} {
		for _, err := range r.Store.List(ctx, prefix, storage.ListOptions{Names: true, Max: 1}) {
			return false, err
		}
	}
	return true, nil
}

// cutoff is the date before which what nothing needs is garbage. A client that was told
// of a thing just before an attempt of it ended may rely on it for the grace period; t is
// covered by the wait at the beginning.
func (r *run) cutoff(grace time.Duration) time.Time {
	switch {
	case r.offline && !r.KeepAge:
		return r.start.AddDate(1000, 0, 0) // whatever its date
	case grace <= 0:
		return r.start
	}
	return r.start.Add(-MinAge(grace))
}

// MinAge returns how old a link that nothing needs must be before a run with this grace
// period deletes it while the store is served.
func MinAge(grace time.Duration) time.Duration {
	return grace + storage.AttemptLimit + 2*storage.ClockError
}

// remove deletes the objects that are unchanged, and returns the keys of those that
// stay.
func (r *run) remove(ctx context.Context, infos []storage.Info) (kept map[string]bool, err error) {
	if r.DryRun || len(infos) == 0 {
		return nil, nil
	}
	left, err := r.collection.Delete(ctx, infos)
	kept = make(map[string]bool, len(left))
	for _, info := range left {
		kept[info.Key] = true
	}
	return kept, err
}

// count writes into the report.
func (r *run) count(write func(p *Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	write(&r.report)
}

func absent(err error) bool { return errors.Is(err, storage.ErrNotExist) }
