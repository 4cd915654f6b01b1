package schedule

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"slipway/shared/tracing"
)

// Names of jobs, those of the commands that do the same.
const (
	UploadPurge    = "uploads delete"
	RetentionApply = "retention apply"
	GarbageCollect = "garbage-collect"
	MirrorSync     = "mirror sync"
	Verify         = "verify"
	Replicate      = "replication sync" // with a space and the name of the target
)

// Errors of [Board.Ask].
var (
	ErrNoJob   = errors.New("there is no such job")
	ErrRunning = errors.New("the job is running or about to run")

	errFailed = errors.New("the run failed")
)

// Job describes a scheduled job at this process.
type Job struct {
	Name   string
	Next   time.Time // when the next run begins at the latest, if none is in progress and no other job holds the slot; zero = only when asked
	Asked  bool      // a run was requested and hasn't begun
	Begun  time.Time // when the run in progress began, zero = none
	By     string    // who asked for that run, "" = the schedule
	Done   *Progress // of that run, nil = none
	Ended  time.Time // of the last run, zero = there was none since the start
	Took   time.Duration
	Failed bool   // the last run did
	Did    string // by the last run
	Bytes  int64  // that it freed, read or fetched
	Kept   string // why the last run did no more, "" = nothing to explain
	Limits string // settings that limit each run, "" = none
}

// Progress counts what a run has looked at since its phase began. It is safe for concurrent use.
type Progress struct {
	Of                                    string // what the run was requested for, such as a plan's ID; "" = whatever is due
	phase                                 atomic.Pointer[string]
	Repositories, Manifests, Blobs, Bytes atomic.Int64
	Percent                               atomic.Int64 // of the phase, 0 = unknown

	traced    context.Context // of the run's span, nil = none
	run, part trace.Span      // of the run and of its phase
}

// Enter begins a phase, such as "reading blobs".
func (p *Progress) Enter(phase string) {
	for _, n := range []*atomic.Int64{&p.Repositories, &p.Manifests, &p.Blobs, &p.Bytes, &p.Percent} {
		n.Store(0)
	}
	p.phase.Store(&phase)
	if p.traced != nil {
		p.part.End()
		_, p.part = tracing.Span(p.traced, phase)
	}
}

// trace begins the span of a run.
func (p *Progress) trace(job string) {
	p.traced, p.run = tracing.Root(context.Background(), job)
	p.part = noop.Span{}
}

// end ends the spans of a run.
func (p *Progress) end(failed bool) {
	p.part.End()
	var err error
	if failed {
		err = errFailed
	}
	tracing.End(p.run, err)
}

// Phase returns the phase, "" before the first.
func (p *Progress) Phase() string {
	if phase := p.phase.Load(); phase != nil {
		return *phase
	}
	return ""
}

// Board shows what the jobs of a process do. It is safe for concurrent use; a nil one shows nothing.
type Board struct {
	mu   sync.Mutex
	jobs []*entry
}

// entry is a job, and the channel that takes who asked for a run.
type entry struct {
	Job
	asked chan string
	of    string // what the requested run is for
}

// Jobs returns the jobs in the order in which they were planned first.
func (b *Board) Jobs() (all []Job) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.jobs {
		all = append(all, j.Job)
	}
	return all
}

// change calls f with the job of that name, which is made if there is none.
func (b *Board) change(name string, f func(*entry)) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.find(name)
	if e == nil {
		e = &entry{Job: Job{Name: name}, asked: make(chan string, 1)}
		b.jobs = append(b.jobs, e)
	}
	f(e)
}

// find needs b.mu.
func (b *Board) find(name string) *entry {
	if i := slices.IndexFunc(b.jobs, func(e *entry) bool { return e.Name == name }); i >= 0 {
		return b.jobs[i]
	}
	return nil
}

// Asked returns the channel that receives the name of the user who requests a run.
func (b *Board) Asked(name string) (asked <-chan string) {
	b.change(name, func(e *entry) { asked = e.asked })
	return asked
}

// Ask requests a run now for the user of that name. The error is ErrNoJob or ErrRunning.
func (b *Board) Ask(name, by string) error { return b.AskFor(name, by, "") }

// AskFor is Ask for a run that gets of in its [Progress].
func (b *Board) AskFor(name, by, of string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.find(name)
	switch {
	case e == nil:
		return ErrNoJob
	case e.Asked || !e.Begun.IsZero():
		return ErrRunning
	}
	e.Asked, e.of = true, of
	e.asked <- by // its place is free: Asked is false
	return nil
}

// Plan notes that the job runs next within the time, or only when asked if that is 0.
func (b *Board) Plan(name string, within time.Duration) {
	b.change(name, func(e *entry) {
		if e.Next = (time.Time{}); within > 0 {
			e.Next = time.Now().Add(within)
		}
	})
}

// Begin notes that the job runs, and returns the counters of the run.
func (b *Board) Begin(name, by string) *Progress {
	done := &Progress{}
	done.trace(name)
	b.change(name, func(e *entry) {
		if by != "" {
			done.Of = e.of
		}
		e.Begun, e.By, e.Done, e.Asked = time.Now(), by, done, false
		select {
		case <-e.asked: // while the run waited for its slot
		default:
		}
	})
	return done
}

// Note notes what the run has done.
func (b *Board) Note(name, did string, bytes int64) {
	b.change(name, func(e *entry) { e.Did, e.Bytes, e.Kept = did, bytes, "" })
}

// Explain notes why the run did no more. It follows Note.
func (b *Board) Explain(name, kept string) {
	b.change(name, func(e *entry) { e.Kept = kept })
}

// Limit notes the settings that limit each run.
func (b *Board) Limit(name, limits string) {
	b.change(name, func(e *entry) { e.Limits = limits })
}

// End notes that the job has ended.
func (b *Board) End(name string, failed bool) {
	b.change(name, func(e *entry) {
		if e.Done != nil {
			e.Done.end(failed)
		}
		e.Ended = time.Now()
		e.Took, e.Failed, e.Begun, e.By, e.Done = e.Ended.Sub(e.Begun), failed, time.Time{}, "", nil
	})
}

// Refuse notes why a requested run did not begin.
func (b *Board) Refuse(name, why string) {
	b.change(name, func(e *entry) {
		e.Asked, e.Ended, e.Failed, e.Did, e.Bytes, e.Kept = false, time.Now(), false, why, 0, ""
	})
}
