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

	"slipway/registry/internal/driver"
	"slipway/registry/internal/oci"
)

// ErrIncomplete is inside the error of a run that left repositories alone.
var ErrIncomplete = errors.New("some repositories could not be read and were left alone")

// Options is what a run is told.
type Options struct {
	Driver driver.Driver
	Log    *zap.Logger // nil = none
	// Age is for how long a client may rely on what it was told. Without a
	// server on the storage nobody relies on anything, unless KeepAge is set.
	Age     time.Duration
	KeepAge bool
	// DeleteUntagged takes manifests too that no tag leads to.
	DeleteUntagged bool
	DryRun         bool        // only tell
	Tell           func(Event) // nil = nobody; one call at a time, the events of a repository in one piece
	// Processors is how many the machine has; 0 is as many as may run Go.
	Processors int
}

// Report tells what a run did, or would do.
type Report struct {
	DryRun       bool          `json:"dryRun"`
	Duration     time.Duration `json:"durationNanoseconds"`
	Repositories int           `json:"repositories"`
	Manifests    Count         `json:"manifests"`
	Blobs        Count         `json:"blobs"`
	Bytes        Count         `json:"bytes"`
	Kept         Reasons       `json:"kept"`
	LayerLinks   int64         `json:"layerLinksRemoved"`
	TagEntries   int64         `json:"tagHistoryRemoved"`
	Restored     int64         `json:"restored"` // set aside and needed after all
	NoRoom       int64         `json:"noRoom"`   // stayed because a full storage has no room to set them aside
	Problems     []Problem     `json:"problems"`
}

// Count is about one kind of thing. Manifests are counted in each repository.
type Count struct {
	Found int64 `json:"found"`
	Freed int64 `json:"freed"`
	Kept  int64 `json:"kept"`
}

// Reasons says why blobs were kept.
type Reasons struct {
	Needed   Reason `json:"neededByManifests"`
	Promised Reason `json:"promisedToClients"`
	Withheld Reason `json:"ofRepositoriesLeftAlone"`
}

// Reason is how many blobs were kept for one reason, and their bytes.
type Reason struct {
	Blobs int64 `json:"blobs"`
	Bytes int64 `json:"bytes"`
}

// Problem is why a repository was left alone.
type Problem struct {
	Repository oci.Name   `json:"repository"`
	Manifest   oci.Digest `json:"manifest,omitempty"`
	Error      string     `json:"error"`
}

// run is one collection.
type run struct {
	Options
	digests *digests
	graph   *graph
	before  time.Time // what was promised since counts
	anyAge  bool      // no promise was given before

	hands   chan struct{} // see crew
	pace    pace
	alone   alone
	telling sync.Mutex

	mu     sync.Mutex // guards what follows
	report Report
	flush  map[string]struct{} // directories that revisions were taken out of
}

// book writes into the report.
func (r *run) book(write func(p *Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	write(&r.report)
}

// barrierTimeout bounds the wait for writers: longer than a commit may take.
const barrierTimeout = 15 * time.Minute

// Run collects once. The error wraps driver.ErrBusy if another run is under way,
// and ErrIncomplete if repositories were left alone; the report is good then.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	start := time.Now()
	report, err := round(ctx, o)
	for err == nil && report.NoRoom > 0 && report.progress() {
		before := report
		report, err = round(ctx, o)
		report.add(&before)
	}
	if err == nil && report.NoRoom > 0 {
		report.Problems = append(report.Problems, Problem{Error: fmt.Sprintf("there is no room to set %d objects aside", report.NoRoom)})
	}
	slices.SortStableFunc(report.Problems, func(a, b Problem) int { return cmp.Compare(a.Repository, b.Repository) })
	report.Duration = time.Since(start)
	if err == nil && len(report.Problems) > 0 {
		err = fmt.Errorf("%w: %d", ErrIncomplete, len(report.Problems))
	}
	return report, err
}

// round collects as much as there is room to set aside: all, but on a storage
// that is full.
func round(ctx context.Context, o Options) (Report, error) {
	r := newRun(o)
	err := r.run(ctx)
	return r.report, err
}

func newRun(o Options) *run {
	r := &run{Options: o, digests: newDigests(), graph: newGraph(), flush: map[string]struct{}{}}
	r.pace.machine = cmp.Or(o.Processors, runtime.GOMAXPROCS(0))
	r.report.DryRun, r.report.Problems = o.DryRun, []Problem{}
	return r
}

// progress says whether another round may find room.
func (p *Report) progress() bool {
	return p.Blobs.Freed > 0 || p.Manifests.Freed > 0 || p.LayerLinks > 0
}

// add adds what the round before has freed.
func (p *Report) add(before *Report) {
	for sum, n := range map[*Count]int64{&p.Manifests: before.Manifests.Freed, &p.Blobs: before.Blobs.Freed, &p.Bytes: before.Bytes.Freed} {
		sum.Found += n
		sum.Freed += n
	}
	p.LayerLinks += before.LayerLinks
	p.TagEntries += before.TagEntries
	p.Restored += before.Restored
}

func (r *run) run(ctx context.Context) error {
	if err := r.setLimit(ctx); err != nil {
		return err
	}
	if r.DryRun {
		return r.sweep(ctx)
	}
	unlock, err := r.Driver.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.beAlone(ctx); err != nil {
		return err
	}
	defer r.endAlone()
	if err := r.sweep(ctx); err != nil {
		return err
	}
	if r.wasAlone() {
		return nil
	}
	if err := r.confirm(ctx); err != nil {
		return err
	}
	return r.purge(ctx)
}

// sweep is the first look: it sets aside what nobody seems to need.
func (r *run) sweep(ctx context.Context) error {
	if !r.DryRun {
		if err := r.recover(ctx); err != nil {
			return err
		}
	}
	if err := r.eachRepository(ctx, r.sweepRepository); err != nil {
		return err
	}
	r.tellMarked()
	if err := r.flushRevisions(ctx); err != nil {
		return err
	}
	return r.sweepBlobs(ctx)
}

// confirm is the second look. Nothing is set aside any more.
func (r *run) confirm(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, barrierTimeout)
	defer cancel()
	if err := r.Driver.Barrier(wait); err != nil {
		return fmt.Errorf("some writer does not end, so nothing is purged: %w", err)
	}
	return r.eachRepository(ctx, r.confirmRepository)
}

// slack covers that the clock of a file system stands still for up to a tick,
// or counts whole seconds only.
func slack(changed time.Time) time.Duration {
	if changed.Nanosecond() == 0 {
		return 2100 * time.Millisecond
	}
	return 50 * time.Millisecond
}

// setLimit decides which promises count, and how many hands work. Servers renew
// promises older than a quarter of the age only.
func (r *run) setLimit(ctx context.Context) error {
	now := r.Driver.Now() // before the look: who comes after it promises later
	n, err := r.Driver.Servers(ctx)
	if err != nil {
		return err
	}
	age := r.Age + r.Age/4
	if n == 0 && !r.KeepAge {
		age = 0
	}
	if n == 0 {
		r.hands = make(chan struct{}, hands-1)
	}
	r.pace.begin(r.Driver.Busy)
	r.anyAge = age == 0
	r.before = now.Add(-age)
	return nil
}

// relied says whether a client may rely on what was last changed then.
func (r *run) relied(changed time.Time) bool {
	if r.anyAge {
		return changed.After(r.before)
	}
	return changed.Add(slack(changed)).After(r.before)
}

func absent(err error) bool { return errors.Is(err, driver.ErrNotExist) }
