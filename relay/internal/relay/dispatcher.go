package relay

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/format"
	"slipway/relay/internal/store"
)

const (
	headsBudget   = 8 << 20 // bytes of messages held in memory by all rooms together
	finishWithin  = 10 * time.Second
	complainEvery = 10 * time.Second
	deviceKey     = "outbox.device" // setting: the device that the last attempts were made with
	cleanKey      = "outbox.clean"  // setting: "1" after an orderly end
)

// dispatcher sends what is in the outbox: rooms side by side, within a room one entry after the other.
type dispatcher struct {
	store    *store.Store
	sender   Sender
	rooms    Rooms
	format   format.Options
	log      *zap.Logger
	metrics  *Metrics
	accounts *account.Accounts // set before anything is delivered
	maxAge   time.Duration

	mu     sync.RWMutex
	queues map[int64]*queue

	held     atomic.Int64 // bytes in all heads
	depth    atomic.Int64 // entries that wait
	slots    chan struct{}
	gate     *gate
	pace     *pace
	waiters  *waiters
	running  atomic.Bool
	stopping chan struct{}
	wg       sync.WaitGroup
	ctx      context.Context // of the attempts: ends a while after stopping is closed
	cancel   context.CancelFunc

	complained time.Time // of results that cannot be stored
}

func newDispatcher(o Options) *dispatcher {
	d := &dispatcher{
		store: o.Store, sender: o.Sender, rooms: o.Rooms, format: o.Format, log: o.Log, metrics: o.Metrics,
		maxAge: o.Delivery.MaxAge, queues: map[int64]*queue{}, slots: make(chan struct{}, o.Delivery.Parallel),
		pace: &pace{}, waiters: &waiters{byID: map[int64][]chan struct{}{}}, stopping: make(chan struct{}),
	}
	d.gate = newGate(o.Sender, o.Log)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// load makes the lines of all rooms.
func (d *dispatcher) load(ctx context.Context) error {
	var rooms []store.Room
	if err := d.store.Read(ctx).Find(&rooms).Error; err != nil {
		return fmt.Errorf("read the rooms: %w", err)
	}
	for _, r := range rooms {
		d.addRoom(r)
	}
	backlogs, err := d.store.Backlogs(ctx)
	if err != nil {
		return fmt.Errorf("read what is waiting: %w", err)
	}
	for _, b := range backlogs {
		if q := d.queue(b.Room); q != nil {
			q.oldest, q.more, q.countedTo = b.Oldest, true, b.Last
			q.lengthen(b.Waiting)
		}
	}
	return nil
}

// recover prepares the outbox after an end that was not orderly, and notes that this run has begun.
func (d *dispatcher) recover(ctx context.Context) error {
	clean, err := d.store.Setting(ctx, cleanKey)
	if err != nil {
		return err
	}
	if clean != "1" {
		device, err := d.store.Setting(ctx, deviceKey)
		if err != nil {
			return err
		}
		if device != "" { // else nothing was ever sent
			if err := d.store.MarkSuspects(ctx, device); err != nil {
				return err
			}
		}
	}
	return d.store.SetSetting(ctx, cleanKey, "0")
}

// run sends until ctx is done and what is in flight then has ended.
func (d *dispatcher) run(ctx context.Context) {
	d.running.Store(true)
	d.wg.Go(func() { d.gate.run(d.stopping, d.resumed, func() { d.wg.Go(d.makeRooms) }) })
	for _, q := range d.all() {
		q.mu.Lock()
		q.start()
		q.mu.Unlock()
	}
	<-ctx.Done()
	d.running.Store(false)
	for _, q := range d.all() {
		q.mu.Lock()   // whoever was about to start has done so
		q.mu.Unlock() //nolint:staticcheck // an empty section, on purpose
	}
	close(d.stopping)
	timer := time.AfterFunc(finishWithin, d.cancel)
	d.wg.Wait()
	timer.Stop()
	d.cancel()
}

func (d *dispatcher) started() bool { return d.running.Load() }

func (d *dispatcher) isStopping() bool {
	select {
	case <-d.stopping:
		return true
	default:
		return false
	}
}

func (d *dispatcher) addRoom(r store.Room) *queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.queues[r.ID]; q != nil {
		return q
	}
	q := newQueue(d, r)
	d.queues[r.ID] = q
	return q
}

func (d *dispatcher) queue(id int64) *queue {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.queues[id]
}

func (d *dispatcher) all() []*queue {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := make([]*queue, 0, len(d.queues))
	for _, q := range d.queues {
		all = append(all, q)
	}
	return all
}

// inRoom returns the lines whose room has this id.
func (d *dispatcher) inRoom(roomID string) []*queue {
	var found []*queue
	for _, q := range d.all() {
		if q.Room().RoomID == roomID {
			found = append(found, q)
		}
	}
	return found
}

// hold reserves memory for an entry in a head, if there is some.
func (d *dispatcher) hold(size int) bool {
	if d.held.Add(int64(size)) <= headsBudget {
		return true
	}
	d.release(size)
	return false
}

func (d *dispatcher) take(size int)    { d.held.Add(int64(size)) }
func (d *dispatcher) release(size int) { d.held.Add(-int64(size)) }

// enter waits until an attempt may begin: nothing is paused, a slot is free and the homeserver's rate allows it. It
// answers false if the line has to look again whether it still wants to; else leave must follow.
func (d *dispatcher) enter(q *queue) bool {
	if !d.gate.pass(d.stopping) || !d.pace.wait(d.stopping) {
		return false
	}
	select {
	case d.slots <- struct{}{}:
		return true
	case <-d.stopping:
		return false
	}
}

func (d *dispatcher) leave() { <-d.slots }

// committed passes on what the store has committed. It is called by one goroutine.
func (d *dispatcher) committed(c store.Commit) {
	if c.Err != nil && time.Since(d.complained) > complainEvery {
		d.complained = time.Now()
		d.log.Error("results of deliveries cannot be stored; they are tried again", zap.Error(c.Err))
	}
	if d.accounts != nil {
		d.accounts.Count(c)
	}
	if n := len(c.Accepted); n > 0 {
		d.metrics.accepted.Add(float64(n))
		d.metrics.batch.Observe(float64(n))
		d.metrics.commit.Observe(c.Duration.Seconds())
	}
	for _, e := range c.Accepted {
		if q := d.queue(e.Room); q != nil {
			q.add(e)
		}
	}
	for _, o := range c.Outcomes {
		if o.Entry.State < store.Sent {
			continue
		}
		if q := d.queue(o.Entry.Room); q != nil {
			q.committed(o.Entry.ID)
		}
		d.waiters.wake(o.Entry.MessageID)
	}
}

// resumed is called before sending goes on.
func (d *dispatcher) resumed() {
	if device := d.sender.Device(); device != "" {
		if err := d.store.SetSetting(d.ctx, deviceKey, device); err != nil {
			d.log.Error("cannot note the device in use", zap.Error(err))
		}
	}
}

// Add makes a room known that has just been stored.
func (d *dispatcher) Add(room store.Room) { d.addRoom(room) }

// Make makes or looks up an application's room if the homeserver is there and quick; else it is done later.
func (d *dispatcher) Make(ctx context.Context, room int64) {
	if reason, _ := d.gate.state(); reason != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeRoomIn)
	defer cancel()
	if err := d.prepare(ctx, d.queue(room)); err != nil {
		d.log.Warn("the application's room is not there yet", zap.Error(err))
	}
}

const makeRoomIn = 5 * time.Second

// makeRooms makes the rooms that could not be made when their applications were created. It begins when sending is
// possible again: an application that is created from then on gets its room at once.
func (d *dispatcher) makeRooms() {
	for _, q := range d.all() {
		if q.Room().ToMake() && d.wanted(q) && !d.isStopping() {
			if err := d.prepare(d.ctx, q); err != nil {
				d.log.Warn("cannot make an application's room", zap.Int64("room", q.id), zap.Error(err))
			}
		}
	}
}

// oldest returns when the oldest of all entries that wait was accepted; 0 if there is none.
func (d *dispatcher) oldest() int64 {
	var oldest int64
	for _, q := range d.all() {
		q.mu.Lock()
		if q.waiting > 0 && (oldest == 0 || q.oldest < oldest) {
			oldest = q.oldest
		}
		q.mu.Unlock()
	}
	return oldest
}
