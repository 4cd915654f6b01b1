package notify

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// job is one event for one endpoint.
type job struct {
	endpoint *endpoint
	record   record
}

// commitRequest is what one caller waits for.
type commitRequest struct {
	jobs []job
	done chan error
}

// committer writes changes into the queues. Callers that wait at the same time
// share a write and a flush. What cannot be written is kept and tried again; until
// that succeeds the committer is not ready.
type committer struct {
	requests chan commitRequest
	quit     chan struct{} // closed by stop
	finished chan struct{} // closed when run has ended
	log      *zap.Logger
	kept     []job
	suspects []*endpoint // whose queues could not be written the last time
	reserve  *reserve    // nil = none
	writing  sync.Mutex  // held by who adds changes to a queue and flushes them
	trouble  atomic.Pointer[error]
}

// Bounds of one commit, and how often what was kept is tried again.
const (
	commitBatch = 128
	retryKept   = time.Second
)

func newCommitter(log *zap.Logger) *committer {
	return &committer{requests: make(chan commitRequest, commitBatch), quit: make(chan struct{}), finished: make(chan struct{}), log: log}
}

func (c *committer) ready() error {
	if err := c.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// commit returns when the jobs are durable.
func (c *committer) commit(jobs []job) error {
	if len(jobs) == 0 {
		return nil
	}
	r := commitRequest{jobs, make(chan error, 1)}
	select {
	case c.requests <- r:
	case <-c.quit:
		return errEnded
	}
	select {
	case err := <-r.done:
		return err
	case <-c.finished:
	}
	select {
	case err := <-r.done:
		return err
	default:
		return errEnded
	}
}

// errEnded is told to whoever comes after the end.
var errEnded = errors.New("the registry is ending")

// stop ends run once the commits under way are done.
func (c *committer) stop() { close(c.quit) }

func (c *committer) run() {
	defer close(c.finished)
	tick := time.NewTicker(retryKept)
	defer tick.Stop()
	for {
		select {
		case first := <-c.requests:
			c.serve(c.collect([]commitRequest{first}))
		case <-tick.C:
			if c.ready() != nil {
				c.serve(nil)
			} else {
				c.reserve.renew()
			}
		case <-c.quit:
			c.serve(c.collect(nil))
			c.end()
			return
		}
	}
}

func (c *committer) collect(batch []commitRequest) []commitRequest {
	for len(batch) < commitBatch {
		select {
		case r := <-c.requests:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// serve writes what was kept and what is new, and answers.
func (c *committer) serve(batch []commitRequest) {
	jobs := c.kept
	for _, r := range batch {
		jobs = append(jobs, r.jobs...)
	}
	err := c.write(jobs)
	c.note(err)
	for _, r := range batch {
		r.done <- err
	}
}

// write adds the jobs to their queues and flushes these beside each other. Jobs
// that are in no queue are kept. A queue that failed the last time has to prove
// itself, with or without a job.
func (c *committer) write(jobs []job) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	byEndpoint := map[*endpoint][]record{}
	for _, e := range c.suspects {
		byEndpoint[e] = nil
	}
	for _, j := range jobs {
		byEndpoint[j.endpoint] = append(byEndpoint[j.endpoint], j.record)
	}
	c.kept, c.suspects = nil, nil
	var errs []error
	var flushes []flushing
	for e, records := range byEndpoint {
		flush, err := c.add(e, records)
		if err != nil {
			errs = append(errs, err)
			c.suspects = append(c.suspects, e)
			for _, r := range records {
				c.kept = append(c.kept, job{e, r})
			}
			continue
		}
		e.metrics.queued(e.name, len(records))
		flushes = append(flushes, flushing{e, flush, nil})
	}
	flushAll(flushes)
	for _, f := range flushes {
		if f.err != nil {
			errs = append(errs, f.err)
			c.suspects = append(c.suspects, f.endpoint)
		}
	}
	return errors.Join(errs...)
}

// add puts the records into the endpoint's queue, on a full disk in the place of
// the reserve.
func (c *committer) add(e *endpoint, records []record) (flush func() error, err error) {
	flush, err = e.queue.add(records)
	if noSpace(err) && c.reserve.spend() {
		flush, err = e.queue.add(records)
	}
	e.countDropped()
	return flush, err
}

// move adds what another queue holds. What cannot be written is not kept, and takes
// nothing of the reserve: it stays where it is.
func (c *committer) move(e *endpoint, records []record) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	flush, err := e.queue.add(records)
	if err != nil {
		return err
	}
	return flush()
}

// flushing is a flush and what became of it.
type flushing struct {
	endpoint *endpoint
	flush    func() error
	err      error
}

func flushAll(all []flushing) {
	var group sync.WaitGroup
	for i := range all {
		if i == len(all)-1 {
			all[i].err = all[i].flush() // one alone needs no goroutine
			break
		}
		group.Go(func() { all[i].err = all[i].flush() })
	}
	group.Wait()
}

// note remembers whether the queues can be written, and says when that changes.
func (c *committer) note(err error) {
	before := c.ready()
	switch {
	case err != nil && before == nil:
		c.log.Error("events cannot be queued; pushes and deletions are refused until they can", zap.Error(err))
	case err == nil && before != nil:
		c.log.Info("events can be queued again")
	}
	if err == nil {
		c.trouble.Store(nil)
	} else {
		c.trouble.Store(&err)
	}
}

// end says what is lost. Who made these changes was told that they failed.
func (c *committer) end() {
	if len(c.kept) > 0 {
		c.log.Error("events that could not be queued are lost", zap.Int("events", len(c.kept)))
	}
}
