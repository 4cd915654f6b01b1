package schedule

import (
	"slices"
	"sync"
	"time"
)

// Job is what is known of a scheduled job at this process.
type Job struct {
	Name   string
	Next   time.Time // when the next run begins at the latest, if none is under way and no other job holds the slot
	Begun  time.Time // of the run under way, zero = none
	Ended  time.Time // of the last run, zero = there was none since the start
	Took   time.Duration
	Failed bool   // the last run did
	Did    string // by the last run
	Bytes  int64  // that it freed, read or fetched
}

// Board shows what the jobs of a process do. It is safe for concurrent use; a nil one shows nothing.
type Board struct {
	mu   sync.Mutex
	jobs []*Job
}

// Jobs returns the jobs in the order in which they were planned first.
func (b *Board) Jobs() (all []Job) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.jobs {
		all = append(all, *j)
	}
	return all
}

// change calls f with the job of that name, which is made if there is none.
func (b *Board) change(name string, f func(*Job)) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.jobs, func(j *Job) bool { return j.Name == name })
	if i < 0 {
		i = len(b.jobs)
		b.jobs = append(b.jobs, &Job{Name: name})
	}
	f(b.jobs[i])
}

// Plan notes that the job runs next within the time.
func (b *Board) Plan(name string, within time.Duration) {
	b.change(name, func(j *Job) { j.Next = time.Now().Add(within) })
}

// Begin notes that the job runs.
func (b *Board) Begin(name string) { b.change(name, func(j *Job) { j.Begun = time.Now() }) }

// Note notes what the run has done.
func (b *Board) Note(name, did string, bytes int64) {
	b.change(name, func(j *Job) { j.Did, j.Bytes = did, bytes })
}

// End notes that the job has ended.
func (b *Board) End(name string, failed bool) {
	b.change(name, func(j *Job) {
		j.Ended = time.Now()
		j.Took, j.Failed, j.Begun = j.Ended.Sub(j.Begun), failed, time.Time{}
	})
}
