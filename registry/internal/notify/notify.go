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
	opts      Options
	endpoints []*endpoint
	source    Source
	reserve   *reserve // nil = in memory

	pulling sync.Mutex // guards the next two
	pulls   []Event    // that wait for being written
	pinned  int        // bytes of their manifests
	pulled  chan struct{}

	home    *home      // nil = in memory
	adopted []*home    // of dead processes, which are being emptied
	keeping sync.Mutex // held by whoever looks after the homes

	quit    chan struct{}  // closed when no more events are taken
	workers sync.WaitGroup // who write pulls and look after the homes
	stop    func()         // ends the senders
	senders sync.WaitGroup
}

// New opens the queues and starts to send what is in them. The error names the
// directory.
func New(o Options) (*Notifier, error) {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	n := &Notifier{
		opts: o, source: Source{Addr: o.Addr, InstanceID: uuid.NewString()},
		pulled: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.closeQueues())
	}
	o.Metrics.watch(n.endpoints)
	n.start()
	return n, nil
}

func (n *Notifier) open() error {
	if n.opts.Directory != "" {
		own, err := openHome(n.opts.Directory)
		if err != nil {
			return fmt.Errorf("the queue of notifications: %w", err)
		}
		n.home = own
		n.reserve = &reserve{path: filepath.Join(own.dir, reserveName)}
		n.reserve.renew()
	}
	for i := range n.opts.Endpoints {
		e, err := n.openEndpoint(&n.opts.Endpoints[i])
		if err != nil {
			return fmt.Errorf("endpoint %s: %w", n.opts.Endpoints[i].Name, err)
		}
		n.endpoints = append(n.endpoints, e)
	}
	return nil
}

func (n *Notifier) start() {
	ctx, stop := context.WithCancel(context.Background())
	cut, cutOff := context.WithCancel(context.Background())
	n.stop = func() {
		stop()
		time.AfterFunc(cutDelivery, cutOff)
		n.senders.Wait()
		cutOff()
	}
	for _, e := range n.endpoints {
		n.senders.Go(func() { e.run(ctx, cut) })
	}
	n.workers.Go(n.writePulls)
	if n.opts.Directory != "" {
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
		if err := e.queue.changes.failure(); err != nil {
			return err
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
	logs, err := n.add(events)
	errs := make([]error, len(logs))
	var flushes sync.WaitGroup
	for i, l := range logs {
		flushes.Go(func() { errs[i] = l.persist() })
	}
	flushes.Wait()
	return errors.Join(append(errs, err)...)
}

// add puts the events, all changes or all pulls, into the queues of those who want them,
// and returns the logs that have new ones. One that cannot be encoded is left out.
func (n *Notifier) add(events []Event) (logs []*eventLog, err error) {
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
		body, failed := event.encode(n.opts.Version, n.opts.References)
		if failed != nil {
			err = failed
			continue
		}
		for k, e := range n.endpoints {
			if e.wants(event.Action, event.Target.MediaType) {
				added[k] = append(added[k], record{time: event.Time, body: body})
			}
		}
	}
	for k, e := range n.endpoints {
		if len(added[k]) > 0 {
			logs = append(logs, e.add(events[0].Action == Pull, added[k]))
		}
	}
	return logs, err
}

// Bounds of the pulls that wait for being written: how many, and the bytes of their
// manifests, which are held until their references are read.
const (
	waitingPulls = 1 << 12
	maxPinned    = 16 << 20
)

// Pulled queues a pull. It never waits: of more pulls than can be written down
// some are dropped, and counted.
func (n *Notifier) Pulled(event Event) {
	if !n.Wants(Pull, event.Target.MediaType) {
		return
	}
	event.Time = time.Now().UTC()
	n.pulling.Lock()
	fits := len(n.pulls) < waitingPulls
	if fits {
		if !n.opts.References || n.pinned+len(event.Target.Manifest) > maxPinned {
			event.Target.Manifest = nil
		}
		n.pinned += len(event.Target.Manifest)
		n.pulls = append(n.pulls, event)
	}
	n.pulling.Unlock()
	if fits {
		signal(n.pulled)
		return
	}
	for _, e := range n.endpoints {
		if e.wants(Pull, event.Target.MediaType) {
			e.countDropped(dropped{pulls: 1})
		}
	}
}

// gatherPulls is how long the first pull waits for others: to write each alone costs
// several times as much.
const gatherPulls = 10 * time.Millisecond

// writePulls takes the pulls from those who answer requests.
func (n *Notifier) writePulls() {
	for {
		select {
		case <-n.pulled:
		case <-n.quit:
			n.writeGathered()
			return
		}
		select {
		case <-time.After(gatherPulls):
		case <-n.quit:
		}
		n.writeGathered()
	}
}

func (n *Notifier) writeGathered() {
	n.pulling.Lock()
	batch := n.pulls
	n.pulls, n.pinned = nil, 0
	n.pulling.Unlock()
	logs, err := n.add(batch)
	if err != nil {
		n.opts.Log.Error("an event cannot be encoded", zap.Error(err))
	}
	for _, l := range logs {
		_ = l.persist() // else they wait in memory
	}
}

// cutDelivery is how long the end waits for deliveries under way, and for a queue that
// ends with the process.
const cutDelivery = 2 * time.Second

// Close ends the sending. What is not sent yet stays in the queue; of one in
// memory as much is sent as 2 s allow. Nothing may be reported afterwards.
func (n *Notifier) Close() error {
	if n == nil {
		return nil
	}
	close(n.quit)
	n.workers.Wait()
	n.stop()
	return n.closeQueues()
}

func (n *Notifier) closeQueues() error {
	var errs []error
	for _, e := range n.endpoints {
		errs = append(errs, e.close())
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
	n.warnUnknown()
	for count := 0; ; count++ {
		if count%adoptEvery == 0 {
			n.adopt()
		}
		select {
		case <-tick.C:
		case <-n.quit:
			return
		}
		n.obey()
		for _, e := range n.endpoints {
			_, _ = e.queue.changes.persist(), e.queue.pulls.persist() // again the next time
			signal(e.queue.more)                                      // one may have been unreadable for a moment
		}
		if n.Ready() == nil {
			n.reserve.renew()
		}
	}
}
