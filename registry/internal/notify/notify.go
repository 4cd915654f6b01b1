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

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
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
	reserve    *reserve // nil = in memory
	pulls      chan Event
	pinned     atomic.Int64 // bytes of the manifests in pulls

	home    *home      // nil = in memory
	adopted []*home    // of dead processes, which are being emptied
	keeping sync.Mutex // held by whoever looks after the homes

	quit    chan struct{}  // closed when no more events are taken
	workers sync.WaitGroup // who write pulls and look after the homes
	stop    func()         // ends the senders
	senders sync.WaitGroup
}

// waitingPulls is how many pulls may wait for being written.
const waitingPulls = 1 << 12

// New opens the queues and starts to send what is in them. The error names the
// directory.
func New(o Options) (*Notifier, error) {
	n := &Notifier{
		version: o.Version, references: o.References, source: Source{Addr: o.Addr, InstanceID: uuid.NewString()},
		base: o.Directory, maxSize: o.MaxSize, log: o.Log, metrics: o.Metrics,
		pulls: make(chan Event, waitingPulls), quit: make(chan struct{}),
	}
	if n.metrics == nil {
		n.metrics = NewMetrics(prometheus.NewRegistry())
	}
	for i := range o.Endpoints {
		e, err := newEndpoint(&o.Endpoints[i], o.Version, o.UserAgent, o.Log, n.metrics)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", o.Endpoints[i].Name, err)
		}
		n.endpoints = append(n.endpoints, e)
	}
	if err := n.openQueues(); err != nil {
		return nil, errors.Join(err, n.closeQueues())
	}
	n.metrics.watch(n.endpoints)
	n.start()
	return n, nil
}

func (n *Notifier) openQueues() error {
	dir := func(string) string { return "" }
	if n.base != "" {
		own, err := openHome(n.base)
		if err != nil {
			return fmt.Errorf("the queue of notifications: %w", err)
		}
		n.home = own
		n.reserve = &reserve{path: filepath.Join(own.dir, reserveName)}
		n.reserve.renew()
		dir = func(endpoint string) string { return endpointDir(own.dir, endpoint) }
	}
	for _, e := range n.endpoints {
		if err := e.open(dir(e.name), n.maxSize, n.reserve); err != nil {
			return err
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
	for _, e := range n.endpoints {
		n.senders.Go(func() { e.run(ctx, cut) })
	}
	n.workers.Go(n.writePulls)
	if n.base != "" {
		n.workers.Go(n.maintain)
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
	for _, e := range n.endpoints {
		if err := e.queue.changes.failed.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// Changed queues pushes, mounts and deletions that have happened. When it returns
// nil they outlive a power loss. On an error they are kept in memory, and queued
// as soon as that is possible again.
func (n *Notifier) Changed(events ...Event) error {
	if n == nil {
		return nil
	}
	rows, err := n.add(events)
	errs := make([]error, len(rows)+1)
	errs[len(rows)] = err
	var others sync.WaitGroup
	for i, r := range rows {
		if i == len(rows)-1 {
			errs[i] = r.persist() // one alone needs no goroutine
			break
		}
		others.Go(func() { errs[i] = r.persist() })
	}
	others.Wait()
	return errors.Join(errs...)
}

// add puts the events, all changes or all pulls, into the queues of those who want them,
// and returns the rows that have new ones. One that cannot be encoded is left out.
func (n *Notifier) add(events []Event) (rows []*row, err error) {
	added := make([][]record, len(n.endpoints))
	for i := range events {
		event := &events[i]
		if !n.Wants(event.Action, event.Target.MediaType) {
			continue
		}
		event.ID, event.Source = uuid.NewString(), n.source
		if event.Time.IsZero() {
			event.Time = time.Now().UTC()
		}
		body, failed := event.encode(n.version, n.references)
		if failed != nil {
			err = failed
			continue
		}
		for k, e := range n.endpoints {
			if e.wants(event.Action, event.Target.MediaType) {
				added[k] = append(added[k], newRecord(0, event.Time, body))
			}
		}
	}
	for k, e := range n.endpoints {
		if len(added[k]) > 0 {
			rows = append(rows, e.add(events[0].Action == Pull, added[k]))
		}
	}
	return rows, err
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

// pullBatch is how many pulls are written at once, gatherPulls how long the first
// of them waits for others: to write each alone costs several times as much.
const (
	pullBatch   = 256
	gatherPulls = 10 * time.Millisecond
)

// writePulls takes the pulls from those who answer requests.
func (n *Notifier) writePulls() {
	for {
		select {
		case first := <-n.pulls:
			if len(n.pulls) < pullBatch {
				select {
				case <-time.After(gatherPulls):
				case <-n.quit:
				}
			}
			batch := []Event{first}
			for len(batch) < pullBatch && len(n.pulls) > 0 {
				batch = append(batch, <-n.pulls)
			}
			n.writeBatch(batch)
		case <-n.quit:
			if len(n.pulls) == 0 {
				return
			}
		}
	}
}

func (n *Notifier) writeBatch(batch []Event) {
	rows, err := n.add(batch)
	if err != nil {
		n.log.Error("an event cannot be encoded", zap.Error(err))
	}
	for _, r := range rows {
		_ = r.persist() // else they wait in memory
	}
	for i := range batch {
		n.pinned.Add(-int64(len(batch[i].Target.Manifest)))
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
	close(n.quit)
	n.workers.Wait()
	n.drain()
	n.stop()
	return n.closeQueues()
}

// drain gives what waits in memory a last chance.
func (n *Notifier) drain() {
	if n.base != "" {
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
			errs = append(errs, e.close())
		}
	}
	for _, h := range n.homes() {
		errs = append(errs, h.lock.Close())
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

// How often a process looks after its home, and for those that nobody has.
const (
	maintainEvery = time.Second
	adoptEvery    = 15 // times that
)

// maintain does what `registry events` asks for, writes what could not be written, and
// adopts what dead processes have left.
func (n *Notifier) maintain() {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	n.adopt()
	n.warnUnknown()
	for count := 1; ; count++ {
		select {
		case <-tick.C:
		case <-n.quit:
			return
		}
		n.obey()
		for _, e := range n.endpoints {
			_, _ = e.queue.changes.persist(), e.queue.pulls.persist() // again the next time
			e.queue.signal()                                          // one may have been unreadable for a moment
		}
		if n.Ready() == nil {
			n.reserve.renew()
		}
		if count%adoptEvery == 0 {
			n.adopt()
		}
	}
}
