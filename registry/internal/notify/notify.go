// Package notify sends events of the registry to HTTP endpoints, in the envelope
// of CNCF distribution.
//
// Events of pushes, mounts and deletions are stored durably before their request
// is answered, so those of acknowledged requests are sent at least once, always
// under the same id. A process that is killed after the change and before the
// answer leaves no event. Pulls wait in memory.
package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Endpoint is a receiver of events.
type Endpoint struct {
	Name        string
	URL         string
	Headers     http.Header
	HeadersFile string // "" = none; while it is missing, events wait
	Secret      []byte // signs the body; nil = no signature
	Timeout     time.Duration
	Threshold   int
	Backoff     time.Duration
	Ignore      Ignore
}

// Options configures a Notifier.
type Options struct {
	Endpoints  []Endpoint
	Directory  string // of the queue; "" = in memory
	MaxSize    int64  // bytes that may wait for an endpoint
	Version    Version
	References bool   // list in events of manifests what those refer to
	Addr       string // host:port of this registry, for Source
	UserAgent  string
	Log        *zap.Logger
	Metrics    *Metrics // nil = none
}

// Notifier stores events and sends them. A nil Notifier ignores them. All methods
// are safe for concurrent use.
type Notifier struct {
	opts      Options
	endpoints []*endpoint
	source    Source
	file      *file        // nil = in memory
	admin     *http.Server // nil = none

	mu     sync.Mutex
	failed error // why events could not be stored; nil = they can be

	stop    func() // ends the senders
	senders sync.WaitGroup
}

// New opens the queue and starts to send its events.
func New(o Options) (n *Notifier, err error) {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	n = &Notifier{opts: o, source: Source{Addr: o.Addr, InstanceID: uuid.NewString()}}
	if o.Directory != "" {
		if n.file, err = openFile(o.Directory, o.MaxSize, o.Log); err != nil {
			return nil, fmt.Errorf("event queue: %w", err)
		}
	}
	for i := range o.Endpoints {
		e, err := newEndpoint(&o.Endpoints[i], &o, n.file)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("endpoint %s: %w", o.Endpoints[i].Name, err), n.closeFile())
		}
		n.endpoints = append(n.endpoints, e)
	}
	o.Metrics.watch(n.endpoints)
	if n.file != nil {
		n.warnUnknown()
		n.serveAdmin()
	}
	n.start()
	return n, nil
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
}

// Wants reports whether any endpoint receives events of the action on such a
// target.
func (n *Notifier) Wants(a Action, mediaType string) bool {
	return n != nil && slices.ContainsFunc(n.endpoints, func(e *endpoint) bool { return e.wants(a, mediaType) })
}

// Ready returns why events cannot be stored, nil if they can. Call it before a
// change: afterwards it is too late to refuse it.
func (n *Notifier) Ready() error {
	if n == nil || n.file == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failed == nil {
		return nil
	}
	if n.failed = n.file.probe(); n.failed == nil {
		n.opts.Log.Info("events can be stored again")
	}
	return n.failed
}

// Changed stores the events of pushes, mounts and deletions that were made. When
// it returns nil, they outlast a power loss. After an error they wait in memory.
func (n *Notifier) Changed(events ...Event) error {
	batch, err := n.encode(events)
	if len(batch) == 0 {
		return err
	}
	return errors.Join(err, n.store(batch))
}

// Pulled queues the event of a pull, in memory.
func (n *Notifier) Pulled(ev Event) {
	batch, err := n.encode([]Event{ev})
	if err != nil {
		n.opts.Log.Error("cannot encode an event", zap.Error(err))
	}
	for _, q := range batch {
		n.endpoint(q.endpoint).remember(q.events...)
	}
}

// encode makes the envelopes of the events for the endpoints that want them. Those
// with an error are left out.
func (n *Notifier) encode(events []Event) (batch []queued, err error) {
	if n == nil {
		return nil, nil
	}
	batch = make([]queued, len(n.endpoints))
	for i := range events {
		ev := &events[i]
		if !n.Wants(ev.Action, ev.Target.MediaType) {
			continue
		}
		ev.ID, ev.Source, ev.Time = uuid.NewString(), n.source, time.Now().UTC()
		body, failed := ev.encode(n.opts.Version, n.opts.References)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		for k, e := range n.endpoints {
			if e.wants(ev.Action, ev.Target.MediaType) {
				batch[k].endpoint = e.name
				batch[k].events = append(batch[k].events, &event{pull: ev.Action == Pull, body: body})
				n.opts.Metrics.queued(e.name)
			}
		}
	}
	return slices.DeleteFunc(batch, func(q queued) bool { return len(q.events) == 0 }), err
}

// store puts the events into the file, or into memory where that is impossible.
func (n *Notifier) store(batch []queued) (err error) {
	dropped := make([]int, len(batch))
	if n.file != nil {
		for _, q := range batch {
			n.storeLeft(n.endpoint(q.endpoint))
		}
		dropped, err = n.file.put(batch, n.opts.MaxSize)
	}
	for i, q := range batch {
		e := n.endpoint(q.endpoint)
		if n.file == nil || err != nil {
			e.remember(q.events...)
			e.leftUnstored()
			continue
		}
		e.dropped(dropped[i], 0)
		signal(e.more)
	}
	if err != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.failed == nil {
			n.opts.Log.Error("cannot store events; changes are refused until that is possible, except deletions on a full disk", zap.Error(err))
		}
		n.failed = err
	}
	return err
}

// storeLeft puts changes that the file had no room for into it, before later ones. If there still is none, those go first.
func (n *Notifier) storeLeft(e *endpoint) {
	left := e.takeUnstored()
	if len(left) == 0 {
		return
	}
	dropped, err := n.file.put([]queued{{e.name, left}}, n.opts.MaxSize)
	if err != nil {
		e.remember(left...)
		e.leftUnstored()
		return
	}
	e.dropped(dropped[0], 0)
}

// NoRoom reports whether events could not be stored because the disk is full.
func NoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// cutDelivery is the time that Close waits for deliveries in progress, and for events in
// memory where there is no file.
const cutDelivery = 2 * time.Second

// Close ends the sending. What was not sent stays in the file. Without one as much
// is sent as two seconds allow. Nothing may be reported afterwards.
func (n *Notifier) Close() error {
	if n == nil {
		return nil
	}
	if n.admin != nil {
		_ = n.admin.Close()
	}
	n.stop()
	for _, e := range n.endpoints {
		if left := len(e.memory); left > 0 {
			e.log.Warn("events that were only in memory are lost", zap.Int("events", left))
		}
	}
	return n.closeFile()
}

func (n *Notifier) closeFile() error {
	if n.file == nil {
		return nil
	}
	return n.file.close()
}

func (n *Notifier) endpoint(name string) *endpoint {
	for _, e := range n.endpoints {
		if e.name == name {
			return e
		}
	}
	return nil
}

// warnUnknown logs events whose endpoints the configuration does not have.
func (n *Notifier) warnUnknown() {
	reports, _ := n.file.reports() // just opened
	for _, r := range reports {
		if n.endpoint(r.Endpoint) == nil {
			n.opts.Log.Warn("events wait for an endpoint that is not configured or disabled; `registry events delete` removes them",
				zap.String("endpoint", r.Endpoint), zap.Int("events", r.Changes))
		}
	}
}
