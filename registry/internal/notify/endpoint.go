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

// endpoint sends events to one receiver, one at a time, from a goroutine of its
// own. Pushes, mounts and deletions come from the file, in order; pulls from
// memory, when no others wait. Without a file all are in memory.
type endpoint struct {
	name      string
	shown     string // its URL without what may be secret
	ignore    Ignore
	sender    *sender
	threshold int
	backoff   time.Duration
	file      *file // nil = none
	log       *zap.Logger
	metrics   *Metrics
	more      chan struct{} // signals a new event
	sent      uint64        // the last event from the file that was taken; of run alone

	mu        sync.Mutex
	memory    []*event
	bytes     int64 // of memory
	unstored  bool  // memory may have changes that the file had no room for
	max       int64 // of memory
	state     State
	droppedAt time.Time // when lost changes were last logged
}

// State is the state of an endpoint.
type State struct {
	Failures int       `json:"failures"`         // in a row
	Since    time.Time `json:"since,omitzero"`   // of the first of them
	At       time.Time `json:"at,omitzero"`      // of the last
	Status   int       `json:"status,omitempty"` // of the last answer, 0 without one
	Error    string    `json:"error,omitempty"`  // of the last
	Next     time.Time `json:"next,omitzero"`    // the next try
	LastSent time.Time `json:"lastSent,omitzero"`
	Dropped  int       `json:"dropped,omitempty"` // events that a full queue lost since the start
}

// Ignore selects the events that an endpoint does not receive.
type Ignore struct {
	MediaTypes []string // of the target
	Actions    []Action
}

const (
	maxMemory    = 4 << 20          // bytes of pulls in memory
	chunkEvents  = 64               // that are sent before they are deleted together,
	chunkTime    = time.Second      // or those of this time
	repeatAfter  = time.Minute      // until lost changes are logged again
	maxBackoff   = time.Minute      // unless the configured backoff is longer
	quickRetries = 10               // tries per backoff before the threshold
	unreadable   = 10 * time.Second // between tries to read the file
)

func newEndpoint(o *Endpoint, opts *Options, f *file) (*endpoint, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	e := &endpoint{
		name: o.Name, shown: bareURL(u), ignore: o.Ignore, sender: newSender(o, opts), threshold: o.Threshold, backoff: o.Backoff,
		file: f, log: opts.Log.With(zap.String("endpoint", o.Name)), metrics: opts.Metrics,
		more: make(chan struct{}, 1), max: maxMemory,
	}
	if f == nil {
		e.max = opts.MaxSize
	}
	return e, nil
}

// wants reports whether the endpoint receives such events.
func (e *endpoint) wants(a Action, mediaType string) bool {
	return !slices.Contains(e.ignore.Actions, a) && !slices.Contains(e.ignore.MediaTypes, mediaType)
}

// remember keeps events in memory. Where there is no room, the oldest pulls go, then
// the oldest changes.
func (e *endpoint) remember(events ...*event) {
	var changes, pulls int
	e.mu.Lock()
	e.memory = append(e.memory, events...)
	for _, ev := range events {
		e.bytes += int64(len(ev.body))
	}
	for e.bytes > e.max && len(e.memory) > 1 {
		if i := slices.IndexFunc(e.memory, func(ev *event) bool { return ev.pull }); i >= 0 {
			e.forget(i)
			pulls++
		} else {
			e.forget(0)
			changes++
		}
	}
	e.mu.Unlock()
	e.dropped(changes, pulls)
	signal(e.more)
}

// leftUnstored notes that changes in memory go into the file once it takes some.
func (e *endpoint) leftUnstored() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unstored = true
}

// takeUnstored removes such changes from memory and returns them. One that is being sent is sent twice.
func (e *endpoint) takeUnstored() (all []*event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.unstored {
		return nil
	}
	e.unstored = false
	e.memory = slices.DeleteFunc(e.memory, func(ev *event) bool {
		if ev.pull {
			return false
		}
		all = append(all, ev)
		e.bytes -= int64(len(ev.body))
		return true
	})
	return all
}

// forget removes an event from memory. The caller holds mu.
func (e *endpoint) forget(i int) {
	e.bytes -= int64(len(e.memory[i].body))
	e.memory = slices.Delete(e.memory, i, i+1)
}

// dropped counts events that were lost, and logs lost changes.
func (e *endpoint) dropped(changes, pulls int) {
	if changes+pulls == 0 {
		return
	}
	e.metrics.drop(e.name, changes, pulls)
	e.mu.Lock()
	e.state.Dropped += changes + pulls
	logged := changes == 0 || time.Since(e.droppedAt) < repeatAfter
	if !logged {
		e.droppedAt = time.Now()
	}
	e.mu.Unlock()
	if !logged {
		e.log.Error("the queue of an endpoint is full: the oldest pushes and deletions in it are lost", zap.String("url", e.shown), zap.Int("events", changes))
	}
}

// run sends what waits until ctx ends. A delivery in progress then continues until cut
// ends, and without a file so do the others.
func (e *endpoint) run(ctx, cut context.Context) {
	defer e.sender.client.CloseIdleConnections()
	until := ctx
	if e.file == nil {
		until = cut
	}
	for until.Err() == nil {
		events, err := e.next()
		if err != nil {
			e.log.Error("cannot read the event queue", zap.Error(err))
			pause(until, unreadable)
			continue
		}
		if len(events) == 0 {
			select {
			case <-e.more:
			case <-ctx.Done():
				return
			}
			continue
		}
		if err := e.sendAll(until, cut, events); err != nil && cut.Err() == nil {
			pause(until, e.failed(err))
		}
	}
}

// next returns the events to send next.
func (e *endpoint) next() ([]*event, error) {
	if e.file != nil {
		stored, err := e.file.after(e.name, e.sent, chunkEvents)
		if err != nil || len(stored) > 0 {
			return stored, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.memory[:min(1, len(e.memory))]), nil
}

// sendAll sends the events up to the first that is not taken, and removes those
// that were.
func (e *endpoint) sendAll(ctx, cut context.Context, events []*event) (err error) {
	began := time.Now()
	for _, ev := range events {
		var status int
		status, err = e.sender.send(cut, ev.body)
		if err == nil || cut.Err() == nil {
			e.metrics.tried(e.name, status, err == nil)
		}
		if err != nil {
			break
		}
		e.succeeded()
		if ev.seq == 0 {
			e.mu.Lock()
			if len(e.memory) > 0 && e.memory[0] == ev {
				e.forget(0)
			}
			e.mu.Unlock()
			continue
		}
		e.sent = ev.seq
		if ctx.Err() != nil || time.Since(began) > chunkTime {
			break
		}
	}
	if events[0].seq > 0 && e.sent >= events[0].seq {
		if _, failed := e.file.remove(e.name, e.sent); failed != nil {
			e.log.Warn("cannot remove sent events from the queue; a restart sends them again", zap.Error(failed))
		}
	}
	return err
}

// failed notes a failure, logs the first one in a row, and returns how long to wait.
func (e *endpoint) failed(err error) time.Duration {
	f := &failure{text: err.Error()}
	errors.As(err, &f)
	waiting := e.backlog()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &e.state
	s.At = time.Now().UTC()
	s.Failures++
	wait := max(e.wait(s.Failures), f.retryAfter)
	s.Status, s.Error, s.Next = f.status, f.text, s.At.Add(wait)
	if s.Failures == 1 {
		s.Since = s.At
		e.log.Warn("an endpoint of notifications takes no events; they wait, and it is tried again",
			zap.String("url", e.shown), zap.Int("waiting", waiting.Changes+waiting.Pulls), zap.String("err.cause", f.text))
	}
	return wait
}

// wait is the pause after a number of failures in a row: a tenth of the configured
// backoff until the threshold, the backoff itself from then on, doubled with each
// failure up to a minute.
func (e *endpoint) wait(failures int) time.Duration {
	if failures < e.threshold {
		return e.backoff / quickRetries
	}
	wait := e.backoff << min(failures-e.threshold, 16)
	return min(max(wait, e.backoff), max(maxBackoff, e.backoff))
}

func (e *endpoint) succeeded() {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.state
	e.state = State{LastSent: time.Now().UTC(), Dropped: before.Dropped}
	if before.Failures > 0 {
		e.log.Info("an endpoint of notifications takes events again",
			zap.Int("failures", before.Failures), zap.Duration("after", time.Since(before.Since).Round(time.Millisecond)))
	}
}

func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// drop forgets all that waits and returns how many events that was.
func (e *endpoint) drop() (n int, err error) {
	if e.file != nil {
		n, err = e.file.drop(e.name)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n += len(e.memory)
	e.memory, e.bytes = nil, 0
	return n, err
}

func (e *endpoint) backlog() (b Backlog) {
	if e.file != nil {
		b, _ = e.file.backlog(e.name) // closed at the end
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.memory {
		if ev.pull {
			b.Pulls++
		} else {
			b.Changes++
		}
	}
	b.Bytes += e.bytes
	if len(e.memory) > 0 {
		if first := summary(e.memory[0].body); b.First == nil || first != nil && first.Time.Before(b.First.Time) {
			b.First = first
		}
	}
	return b
}

// signal fills a channel with room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
