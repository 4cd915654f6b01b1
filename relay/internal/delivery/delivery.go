// Package delivery sends what is in the outbox to its Matrix rooms: in which order and at what rate, what happens when
// something on the way fails, and what is found out about attempts whose answer was lost.
//
// It reads the store whenever that has changed, sends through a [Sender], and listens to the homeserver's events.
package delivery

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/store"
)

const (
	finishWithin  = 10 * time.Second
	makeRoomIn    = 5 * time.Second
	complainEvery = 10 * time.Second
	deviceKey     = "outbox.device" // setting: the device that the last attempts were made with
)

// Options configure a [Delivery].
type Options struct {
	Store    *store.Store
	Sender   Sender
	Encrypt  Encrypter // nil where the bot cannot encrypt: messages to encrypted rooms wait
	Rooms    Rooms
	Format   format.Options
	Log      *zap.Logger
	Metrics  *Metrics
	Parallel int           // rooms sent to at the same time; 0 means 64
	MaxAge   time.Duration // give up on a message after that; 0 means 72 h
	// SearchFirst means that the homeserver may forget transactions at any time: a room's history is searched before an event
	// that may be in it is sent again.
	SearchFirst bool
	// Valid reports whether this relay may still send; nil means always. It is called before each request that sends.
	Valid func() bool
}

// Delivery sends what is in the outbox: rooms side by side, within a room one entry after the other. Its methods may be
// called by any number of goroutines.
type Delivery struct {
	o       Options
	store   *store.Store
	sender  Sender
	log     *zap.Logger
	metrics *Metrics

	mu      sync.RWMutex
	queues  map[int64]*queue
	running bool

	slots    chan struct{}
	pause    *pause
	rate     *rate
	stopping chan struct{}
	stale    chan struct{} // something has changed in a room
	synced   atomic.Bool   // an answer of sync was handled
	wg       sync.WaitGroup
	ctx      context.Context // for attempts: ends a while after stopping is closed
	cancel   context.CancelFunc

	complained atomic.Int64 // Unix milliseconds: when results that cannot be stored were last logged
}

// New reads the rooms, and listens to the store until Run ends. Nothing is delivered before Run.
func New(ctx context.Context, o Options) (*Delivery, error) {
	o.Parallel, o.MaxAge = cmp.Or(max(o.Parallel, 0), 64), cmp.Or(max(o.MaxAge, 0), 72*time.Hour)
	d := &Delivery{
		o: o, store: o.Store, sender: o.Sender, log: o.Log, metrics: o.Metrics, queues: map[int64]*queue{},
		slots: make(chan struct{}, o.Parallel), pause: newPause(func(ctx context.Context) error { return o.Sender.Probe(ctx) }, o.Log), rate: &rate{}, stopping: make(chan struct{}), stale: make(chan struct{}, 1),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	o.Store.Listen(d) // before the rooms are read: none is overlooked
	rooms, err := o.Store.Rooms(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the rooms: %w", err)
	}
	for _, r := range rooms {
		d.add(r)
	}
	return d, nil
}

// Delivered reports whether anything was ever sent, or tried, from a database.
func Delivered(ctx context.Context, s *store.Store) (bool, error) {
	device, err := s.Setting(ctx, deviceKey)
	return device != "", err
}

// Recover prepares the outbox after an unclean shutdown: entries that may have been sent count as attempted.
func (d *Delivery) Recover(ctx context.Context) error {
	device, err := d.store.Setting(ctx, deviceKey)
	if err != nil || device == "" { // nothing was ever sent
		return err
	}
	return d.store.MarkSuspects(ctx, device)
}

// Run delivers until ctx is done, then waits up to ten seconds for attempts in flight, and not at all once the lease is
// lost. The homeserver may be unavailable.
func (d *Delivery) Run(ctx context.Context) {
	d.metrics.delivery.Store(d)
	d.mu.Lock()
	d.running = true
	for _, q := range d.queues {
		d.wg.Go(q.run)
	}
	d.mu.Unlock()
	d.wg.Go(func() { d.pause.Run(d.stopping, d.resumed, func() { d.wg.Go(d.MakeRooms); d.lookSoon() }) })
	d.wg.Go(d.lookWhenStale)
	<-ctx.Done()
	d.mu.Lock()
	d.running = false
	d.mu.Unlock()
	close(d.stopping)
	timer := time.AfterFunc(d.finishIn(), d.cancel)
	d.wg.Wait()
	timer.Stop()
	d.store.Listen(nil)
	d.cancel()
	d.metrics.delivery.CompareAndSwap(d, nil)
}

// errFenced says that nothing was sent.
var errFenced = &matrix.SendError{Class: matrix.ClassAway, Reason: "This relay does not deliver any more."}

// fence returns an error once the lease is lost. Requests in flight at that moment are harmless: the new holder repeats them with the same
// transaction ID and device, so the homeserver deduplicates.
func (d *Delivery) fence() error {
	if d.o.Valid != nil && !d.o.Valid() {
		return errFenced
	}
	return nil
}

// finishIn is how long what is in flight may still take: no time once another relay may deliver.
func (d *Delivery) finishIn() time.Duration {
	if d.fence() != nil {
		return 0
	}
	return finishWithin
}

// Changed implements [store.Listener]: it wakes the queue of a room.
func (d *Delivery) Changed(c store.Change) {
	if c.Room == 0 {
		for _, q := range d.all() {
			q.changed(c)
		}
		return
	}
	d.mu.RLock()
	q := d.queues[c.Room]
	d.mu.RUnlock()
	if q != nil {
		q.changed(c)
		return
	}
	go func() { // a commit doesn't wait until the room is read
		if q, err := d.queue(c.Room); err == nil {
			q.changed(c)
		} else if d.ctx.Err() == nil {
			d.log.Error("cannot read a room", zap.Int64("room", c.Room), zap.Error(err))
		}
	}()
}

// InFlight implements [store.Listener].
func (d *Delivery) InFlight(room, entry int64) (began int64, device string) {
	d.mu.RLock()
	q := d.queues[room]
	d.mu.RUnlock()
	if q == nil {
		return 0, ""
	}
	return q.inFlight(entry)
}

// NotStored implements [store.Listener].
func (d *Delivery) NotStored(err error) {
	now := time.Now().UnixMilli()
	if last := d.complained.Load(); now-last > complainEvery.Milliseconds() && d.complained.CompareAndSwap(last, now) {
		d.log.Error("cannot store the results of deliveries; trying again", zap.Error(err))
	}
}

// add makes the queue of a room, if there is none.
func (d *Delivery) add(r store.Room) *queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.queues[r.ID]; q != nil {
		return q
	}
	q := newQueue(d, r)
	d.queues[r.ID] = q
	d.lookSoon()
	if d.running {
		d.wg.Go(q.run)
	}
	return q
}

// queue returns the queue of a room, which is read if it is new.
func (d *Delivery) queue(id int64) (*queue, error) {
	d.mu.RLock()
	q := d.queues[id]
	d.mu.RUnlock()
	if q != nil {
		return q, nil
	}
	r, err := d.store.Room(d.ctx, id)
	if err != nil {
		return nil, err
	}
	q = d.add(r)
	if d.store.Shared() && r.ToMake() { // another relay wants it, and cannot make it
		d.wg.Go(func() { _ = d.prepare(d.ctx, q) }) // what fails is kept with the room
	}
	return q, nil
}

func (d *Delivery) all() []*queue {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := make([]*queue, 0, len(d.queues))
	for _, q := range d.queues {
		all = append(all, q)
	}
	return all
}

// inRoom returns the queues whose room has this id, also of rooms that are just made.
func (d *Delivery) inRoom(roomID string) []*queue {
	rooms, err := d.store.RoomsWithID(d.ctx, roomID)
	if err != nil {
		d.log.Error("cannot read the rooms", zap.Error(err))
	}
	for _, r := range rooms {
		d.add(r)
	}
	return d.known(roomID)
}

// known returns the queues whose room has this id.
func (d *Delivery) known(roomID string) []*queue {
	var found []*queue
	for _, q := range d.all() {
		if q.Room().RoomID == roomID {
			found = append(found, q)
		}
	}
	return found
}

func (d *Delivery) isStopping() bool {
	select {
	case <-d.stopping:
		return true
	default:
		return false
	}
}

// enter waits until a room may be sent to: nothing is paused and a slot is free. While it waits for a slot the room holds
// no memory. It returns false if the room must check again whether it still has something to send; after true the caller must call leave.
func (d *Delivery) enter(q *queue) bool {
	if !d.pause.Pass(d.stopping) {
		return false
	}
	select {
	case d.slots <- struct{}{}:
		return true
	default:
	}
	q.release()
	select {
	case d.slots <- struct{}{}:
		return true
	case <-d.stopping:
		return false
	}
}

func (d *Delivery) leave() { <-d.slots }

// resumed is called before sending resumes. Nothing is sent without it: after a kill, [Delivery.Recover] would take what this device has sent
// for never attempted.
func (d *Delivery) resumed() error {
	device := d.sender.Device()
	if device == "" {
		return nil
	}
	if stored, err := d.store.Setting(d.ctx, deviceKey); err == nil && stored == device { // even if nothing can be written now
		return nil
	}
	if err := d.store.SetSetting(d.ctx, deviceKey, device); err != nil {
		return &matrix.SendError{Class: matrix.ClassAway, Reason: "The relay's database cannot be written.", Err: err}
	}
	return nil
}
