package notify

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// endpoint is a receiver of events. One goroutine sends it one event after the
// other.
type endpoint struct {
	name    string
	shown   string // its URL without what may be secret
	ignore  Ignore
	sender  *sender
	backoff backoff
	queue   *queue
	dir     string // "" if the queue is in memory
	log     *zap.Logger
	metrics *Metrics
	again   chan struct{} // tells to try now

	mu        sync.Mutex
	state     State
	droppedAt time.Time // when dropped events were last logged

	logged   string // the reason that the log knows; of run alone
	loggedAt time.Time
}

// Ignore says which events an endpoint does not receive.
type Ignore struct {
	MediaTypes []string // of the target
	Actions    []Action
}

// wants says whether the endpoint receives such events.
func (e *endpoint) wants(a Action, mediaType string) bool {
	return !slices.Contains(e.ignore.Actions, a) && !slices.Contains(e.ignore.MediaTypes, mediaType)
}

// openEndpoint opens the queue of an endpoint.
func (n *Notifier) openEndpoint(o *Endpoint) (*endpoint, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	e := &endpoint{
		name: o.Name, shown: bareURL(u), ignore: o.Ignore, backoff: backoff{o.Threshold, o.Backoff}, sender: newSender(o, &n.opts),
		log: n.opts.Log.With(zap.String("endpoint", o.Name)), metrics: n.opts.Metrics, again: make(chan struct{}, 1),
	}
	if n.home != nil {
		e.dir = endpointDir(n.home.dir, e.name)
		before, err := readState(e.dir)
		if err != nil {
			return nil, err
		}
		e.state = State{LastSent: before.LastSent, Dropped: before.Dropped}
	}
	if e.queue, err = openQueue(e.dir, n.opts.MaxSize, n.reserve, e.log); err != nil {
		return nil, err
	}
	e.save()
	return e, nil
}

// add puts the events, all changes or all pulls, into the queue and returns their log.
func (e *endpoint) add(pulls bool, events []record) *eventLog {
	to := e.queue.changes
	if pulls {
		to = e.queue.pulls
	}
	dropped := e.queue.add(to, events)
	e.metrics.queued(e.name, len(events))
	e.countDropped(dropped)
	return to
}

// close writes what could not be written before, and says what is lost. Who made these
// changes was told that they failed.
func (e *endpoint) close() error {
	_, _ = e.queue.changes.persist(), e.queue.pulls.persist()
	if lost := len(e.queue.changes.pending); lost > 0 {
		e.log.Error("events that could not be queued are lost", zap.Int("events", lost))
	}
	if left := e.queue.backlog().events(); left > 0 && e.dir == "" {
		e.log.Error("events that were in memory only are lost; notifications.queue.directory keeps them", zap.Int("events", left))
	}
	return e.queue.close()
}

// run sends what the queue has until ctx ends. A delivery under way then goes on
// until cut ends, and all of a queue in memory.
func (e *endpoint) run(ctx, cut context.Context) {
	defer e.sender.client.CloseIdleConnections()
	until := ctx
	if e.dir == "" {
		until = cut
	}
	for until.Err() == nil {
		if ev := e.queue.next(nil); ev != nil {
			e.deliver(until, cut, ev)
			continue
		}
		select {
		case <-e.queue.more:
		case <-ctx.Done():
			return
		}
	}
}

// deliver sends the event until it is taken, or until it has left the queue in
// another way.
func (e *endpoint) deliver(ctx, cut context.Context, ev *event) {
	refused := 0 // times in a row
	for ctx.Err() == nil && e.queue.waits(ev) {
		status, err := e.try(cut, ev)
		if err == nil {
			e.queue.settle(ev)
			e.succeeded()
			return
		}
		if cut.Err() != nil {
			return // the end cut it short
		}
		refused++
		if !refuses(status) {
			refused = 0
		}
		if refused >= e.backoff.threshold && e.passOver(cut, ev, err) {
			return
		}
		e.pause(ctx, e.failed(err))
	}
}

func (e *endpoint) try(ctx context.Context, ev *event) (status int, err error) {
	status, err = e.sender.send(ctx, ev.body)
	if err == nil || ctx.Err() == nil {
		e.metrics.tried(e.name, status, err == nil)
	}
	return status, err
}

// headersPoll is how often a headers file is looked for that is not there.
const headersPoll = time.Second

// failed notes a failure and says how long to wait.
func (e *endpoint) failed(err error) time.Duration {
	f := &failure{reason: reasonNetwork, text: err.Error()}
	errors.As(err, &f)
	e.mu.Lock()
	s := &e.state
	s.At = time.Now().UTC()
	if s.Failures == 0 {
		s.Since = s.At
	}
	s.Failures++
	wait := headersPoll
	if f.reason != reasonHeaders {
		wait = e.backoff.wait(s.Failures, f.retryAfter)
	}
	s.Status, s.Error, s.Next = f.status, f.text, s.At.Add(wait)
	e.mu.Unlock()
	e.save()
	e.tell(f)
	return wait
}

// repeatAfter is how long a failing endpoint is silent about another reason.
const repeatAfter = time.Minute

// tell logs that the endpoint fails, once for a reason.
func (e *endpoint) tell(f *failure) {
	if f.reason == e.logged || e.logged != "" && time.Since(e.loggedAt) < repeatAfter {
		return
	}
	e.logged, e.loggedAt = f.reason, time.Now()
	e.log.Warn("an endpoint of notifications takes no events; they wait, and it is tried again",
		zap.String("url", e.shown), zap.Int("waiting", e.queue.backlog().events()), zap.String("err.cause", f.text))
}

// succeeded notes a success after failures.
func (e *endpoint) succeeded() {
	if e.logged == "" {
		return
	}
	e.mu.Lock()
	before := e.state
	e.state = State{LastSent: time.Now().UTC(), Dropped: before.Dropped}
	e.mu.Unlock()
	e.logged = ""
	e.save()
	e.log.Info("an endpoint of notifications takes events again",
		zap.Int("failures", before.Failures), zap.Duration("after", time.Since(before.Since).Round(time.Millisecond)), zap.Int("waiting", e.queue.backlog().events()))
}

// countDropped counts what was lost, and logs which changes had no room.
func (e *endpoint) countDropped(d dropped) {
	if d == (dropped{}) {
		return
	}
	e.metrics.drop(e.name, d)
	e.mu.Lock()
	e.state.Dropped += d.changes + d.pulls + d.refused
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

// save writes the state for `registry events`, which is worth no error.
func (e *endpoint) save() {
	if e.dir == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := writeState(e.dir, e.state); err != nil {
		e.log.Debug("the state of an endpoint cannot be written", zap.Error(err))
	}
}

func (e *endpoint) pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.again:
	case <-ctx.Done():
	}
}
