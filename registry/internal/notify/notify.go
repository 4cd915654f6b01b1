// Package notify tells others what happens in the registry: webhooks with the
// envelope of CNCF distribution, sent out of a queue on the disk.
//
// A change (push, mount, delete) is in the queue, durably, before its request is
// answered, so whatever was acknowledged is told at least once, always under the
// same id. Pulls are told too, but nobody waits for them: they are written without
// being flushed, and are what a full queue drops first.
package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Endpoint is somebody who wants to be told.
type Endpoint struct {
	Name        string
	URL         string
	Headers     http.Header
	HeadersFile string // "" = none; one that is missing is waited for
	Secret      []byte // signs the body, nil = nothing is signed
	Timeout     time.Duration
	Threshold   int
	Backoff     time.Duration
	Ignore      Ignore
}

// Options is what a Notifier is made of.
type Options struct {
	Endpoints  []Endpoint
	Directory  string // of the queues; "" = in memory
	MaxSize    int64  // bytes of an endpoint's queue
	Version    Version
	References bool   // events of manifests say what those refer to
	Addr       string // host:port of this registry, for Source
	UserAgent  string
	Log        *zap.Logger
	Metrics    *Metrics // nil = none
}

// Notifier takes events and sends them. A nil Notifier takes none. All methods are
// safe for concurrent use.
type Notifier struct {
	endpoints  []*endpoint
	version    Version
	references bool
	source     Source
	log        *zap.Logger
	metrics    *Metrics
	base       string // of the homes; "" = in memory
	maxSize    int64
	home       *home // nil = in memory
	committer  *committer
	pulls      chan Event
	pinned     atomic.Int64 // bytes of the manifests in pulls

	quit    chan struct{}  // closed when no more events are taken
	takers  sync.WaitGroup // those who take events
	stop    func()
	senders sync.WaitGroup // those who send them
	leave   context.CancelFunc
	keeper  sync.WaitGroup // who runs the maintenance loop
}

// waitingPulls is how many pulls may wait for being written.
const waitingPulls = 1 << 12

// New opens the queues and starts to send what is in them. The error names the
// directory.
func New(o Options) (*Notifier, error) {
	n := &Notifier{
		version: o.Version, references: o.References, source: Source{Addr: o.Addr, InstanceID: newID()},
		base: o.Directory, maxSize: o.MaxSize,
		log: o.Log, metrics: o.Metrics, pulls: make(chan Event, waitingPulls), quit: make(chan struct{}),
	}
	for i := range o.Endpoints {
		e, err := newEndpoint(&o.Endpoints[i], o.Version, o.UserAgent, o.Log, o.Metrics)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", o.Endpoints[i].Name, err)
		}
		n.endpoints = append(n.endpoints, e)
	}
	if err := n.openQueues(); err != nil {
		return nil, err
	}
	if o.Metrics != nil {
		o.Metrics.watch(n.endpoints)
	}
	n.start()
	return n, nil
}

func (n *Notifier) openQueues() (err error) {
	if n.base != "" {
		if n.home, err = openHome(n.base); err != nil {
			return err
		}
	}
	for _, e := range n.endpoints {
		if n.home != nil {
			e.dir = endpointDir(n.home.dir, e.name)
		}
		if e.queue, err = openQueue(e.dir, n.maxSize, e.log); err != nil {
			return errors.Join(err, n.closeQueues())
		}
		if e.dir == "" {
			continue
		}
		if e.state, err = readState(e.dir); err != nil {
			return errors.Join(err, n.closeQueues())
		}
		if e.state.Failures > 0 {
			e.state = State{LastSent: e.state.LastSent, Dropped: e.state.Dropped}
			e.save()
		}
	}
	return nil
}

func (n *Notifier) start() {
	ctx, stop := context.WithCancel(context.Background())
	cut, cutOff := context.WithCancel(context.Background())
	n.stop = func() {
		stop()
		timer := time.AfterFunc(cutDelivery, cutOff)
		n.senders.Wait()
		timer.Stop()
		cutOff()
	}
	n.committer = newCommitter(n.log)
	if n.home != nil {
		n.committer.reserve = &reserve{path: filepath.Join(n.home.dir, reserveName)}
		n.committer.reserve.renew()
	}
	n.takers.Go(n.committer.run)
	n.takers.Go(n.writePulls)
	for _, e := range n.endpoints {
		n.senders.Go(func() { e.run(ctx, cut) })
	}
	maintained, leave := context.WithCancel(context.Background())
	n.leave = leave
	if n.home != nil {
		n.keeper.Go(func() { n.maintain(maintained) })
	}
}

// Wants says whether anybody wants events of the action on such a target. It costs
// next to nothing.
func (n *Notifier) Wants(a Action, mediaType string) bool {
	if n == nil {
		return false
	}
	for _, e := range n.endpoints {
		if e.wants(a, mediaType) {
			return true
		}
	}
	return false
}

// Ready is nil if changes can be queued. Whoever is about to make one asks first:
// afterwards it is too late to refuse it.
func (n *Notifier) Ready() error {
	if n == nil {
		return nil
	}
	return n.committer.ready()
}

// Changed queues pushes, mounts and deletions that have happened. When it returns
// nil they outlive a power loss. On an error they are kept in memory, and queued
// as soon as that is possible again.
func (n *Notifier) Changed(events ...Event) error {
	if n == nil {
		return nil
	}
	var jobs []job
	for i := range events {
		if !n.Wants(events[i].Action, events[i].Target.MediaType) {
			continue
		}
		r, err := n.record(&events[i])
		if err != nil {
			return err
		}
		for _, e := range n.endpoints {
			if e.wants(events[i].Action, events[i].Target.MediaType) {
				jobs = append(jobs, job{e, r})
			}
		}
	}
	return n.committer.commit(jobs)
}

// Pulled queues a pull. It never waits: of more pulls than can be written down
// some are dropped, and counted.
func (n *Notifier) Pulled(event Event) {
	if !n.Wants(Pull, event.Target.MediaType) {
		return
	}
	event.Time = time.Now().UTC()
	n.pin(&event)
	select {
	case n.pulls <- event:
	default:
		n.pinned.Add(-int64(len(event.Target.Manifest)))
		for _, e := range n.endpoints {
			if e.wants(Pull, event.Target.MediaType) {
				n.metrics.drop(e.name, dropped{pulls: 1})
			}
		}
	}
}

// maxPinned bounds the manifests that are held until their references are read.
const maxPinned = 16 << 20

// pin leaves out the manifest where nobody needs it, or too many are held already.
func (n *Notifier) pin(event *Event) {
	size := int64(len(event.Target.Manifest))
	if !n.references {
		event.Target.Manifest = nil
	} else if n.pinned.Add(size) > maxPinned {
		n.pinned.Add(-size)
		event.Target.Manifest = nil
	}
}

// record completes the event and writes it as it is sent.
func (n *Notifier) record(event *Event) (record, error) {
	event.ID, event.Source = newID(), n.source
	if event.Time.IsZero() {
		event.Time = time.Now().UTC()
	}
	body, err := event.encode(n.version, n.references)
	return record{at: event.Time, body: body, pull: event.Action == Pull}, err
}

// pullBatch is how many pulls are written at once, gatherPulls how long the first
// of them waits for others: to write each alone costs several times as much.
const (
	pullBatch   = 256
	gatherPulls = 10 * time.Millisecond
)

// writePulls takes the pulls from those who answer requests.
func (n *Notifier) writePulls() {
	for {
		var batch []Event
		select {
		case first := <-n.pulls:
			batch = append(batch, first)
		case <-n.quit:
			if len(n.pulls) == 0 {
				return
			}
		}
		n.gather()
		for len(batch) < pullBatch && len(n.pulls) > 0 {
			batch = append(batch, <-n.pulls)
		}
		n.writeBatch(batch)
	}
}

// gather waits for more pulls, unless there are many already, or the end has come.
func (n *Notifier) gather() {
	if len(n.pulls) >= pullBatch {
		return
	}
	select {
	case <-time.After(gatherPulls):
	case <-n.quit:
	}
}

func (n *Notifier) writeBatch(batch []Event) {
	records := make([]record, len(batch))
	for i := range batch {
		var err error
		if records[i], err = n.record(&batch[i]); err != nil {
			n.log.Error("an event cannot be encoded", zap.Error(err))
		}
		n.pinned.Add(-int64(len(batch[i].Target.Manifest)))
	}
	for _, e := range n.endpoints {
		var wanted []record
		for i := range batch {
			if e.wants(Pull, batch[i].Target.MediaType) && records[i].body != nil {
				wanted = append(wanted, records[i])
			}
		}
		if len(wanted) == 0 {
			continue
		}
		if n.committer.reserve.isSpent() {
			e.queue.losePulls(len(wanted))
		} else {
			_, _ = e.queue.add(wanted) // they are not waited for, and drops are counted
		}
		n.metrics.queued(e.name, len(wanted))
		e.countDropped()
	}
}

// countDropped tells what a full queue has lost.
func (e *endpoint) countDropped() {
	d := e.queue.takeDropped()
	if d == (dropped{}) {
		return
	}
	e.metrics.drop(e.name, d)
	e.mu.Lock()
	e.state.Dropped += d.changes + d.pulls
	tell := d.changes > 0 && time.Since(e.droppedAt) > repeatAfter
	if tell {
		e.droppedAt = time.Now()
	}
	e.mu.Unlock()
	if tell {
		e.log.Error("the queue of an endpoint is full: the oldest pushes and deletions in it are lost",
			zap.String("url", e.shown), zap.Int("events", d.changes))
	}
}

// Bounds of the end.
const (
	drainMemory = 5 * time.Second // for a queue that ends with the process
	cutDelivery = 2 * time.Second // for the deliveries under way
)

// Close ends the sending. What is not sent yet stays in the queue; of one in
// memory as much is sent as 5 s allow. Nothing may be reported afterwards.
func (n *Notifier) Close() error {
	if n == nil {
		return nil
	}
	n.leave()
	n.keeper.Wait()
	close(n.quit)
	n.committer.stop()
	n.takers.Wait()
	n.drain()
	n.stop()
	return n.closeQueues()
}

// drain gives what waits in memory a last chance.
func (n *Notifier) drain() {
	if n.home != nil {
		return
	}
	for _, e := range n.endpoints {
		e.tryNow()
	}
	deadline := time.Now().Add(drainMemory)
	for n.waiting() > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if left := n.waiting(); left > 0 {
		n.log.Error("events that were in memory only are lost; notifications.queue.directory keeps them", zap.Int("events", left))
	}
}

func (n *Notifier) waiting() int {
	sum := 0
	for _, e := range n.endpoints {
		sum += e.queue.backlog().events()
	}
	return sum
}

func (n *Notifier) closeQueues() error {
	var errs []error
	for _, e := range n.endpoints {
		if e.queue != nil { // else it failed to open
			errs = append(errs, e.queue.close())
		}
	}
	if n.home != nil {
		errs = append(errs, n.home.lock.Close())
	}
	return errors.Join(errs...)
}

func (n *Notifier) endpoint(name string) *endpoint {
	for _, e := range n.endpoints {
		if e.name == name {
			return e
		}
	}
	return nil
}

// maintain adopts what dead processes have left, and does what `registry events`
// asks for.
func (n *Notifier) maintain(ctx context.Context) {
	tick := time.NewTicker(requestsPoll)
	defer tick.Stop()
	n.adopt()
	n.warnUnknown()
	for looked := time.Now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		n.obey()
		if time.Since(looked) >= adoptEvery {
			n.adopt()
			looked = time.Now()
		}
	}
}
