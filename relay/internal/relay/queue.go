package relay

import (
	"context"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

const (
	headEntries = 32        // entries of a room that are held in memory
	headBytes   = 256 << 10 // …and about how many bytes
	parkedFor   = 15 * time.Minute
	lingerFor   = time.Second // a goroutine without work waits for more: its stack has grown by then
)

// queue is one room's line: the first entries in memory, the rest in the database.
type queue struct {
	d  *dispatcher
	id int64 // rooms.id

	// edit is held while an entry is taken up and while the line is changed from outside, so that nobody changes
	// what is being sent. It is taken before mu.
	edit sync.Mutex

	making sync.Mutex // held while the room's id is found out
	saving sync.Mutex // held while the room is stored: what is stored last is the newest

	began int64 // since when the attempt under way may reach its room, 0 before; its goroutine's alone

	mu          sync.Mutex
	room        store.Room
	head        []*store.Entry
	headSize    int
	readTo      int64              // the id up to which entries have been in head
	countedTo   int64              // the id up to which messages are part of waiting
	more        bool               // entries beyond readTo are in the database
	missed      bool               // entries have come while a page was read
	running     bool               // a goroutine works on the line
	lingers     bool               // …or has nothing to do and waits for more
	inFlight    int64              // the entry that is being sent
	uncommitted map[int64]struct{} // at rest, but the database does not know yet
	waiting     int64
	oldest      int64                      // when the first of them was accepted
	notBefore   time.Time                  // no attempt before
	limited     time.Time                  // …and none at all before: the homeserver has told so
	joinTried   bool                       // since the last success
	tried       store.Entry                // without its message: the entry that was left for another attempt last
	behind      struct{ id, failed int64 } // the entry behind a message that failed last, and how often
	wake        chan struct{}
}

func newQueue(d *dispatcher, room store.Room) *queue {
	return &queue{d: d, id: room.ID, room: room, uncommitted: map[int64]struct{}{}, wake: make(chan struct{}, 1)}
}

// Room returns the room as it stands.
func (q *queue) Room() store.Room {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.room
}

// setRoom changes what is remembered of the room.
func (q *queue) setRoom(change func(*store.Room)) {
	q.mu.Lock()
	change(&q.room)
	q.mu.Unlock()
}

// nudge makes a goroutine that waits look again.
func (q *queue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// add takes in a message that was just committed. It is called in the order of the commits, but a page that is read may
// hold the message before.
func (q *queue) add(e *store.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(e)
	if e.ID <= q.readTo {
		return
	}
	size := e.Size()
	if q.more || len(q.head) >= headEntries || q.headSize+size > headBytes && len(q.head) > 0 || !q.d.hold(size) {
		q.more, q.missed = true, true
	} else {
		q.head = append(q.head, e)
		q.headSize += size
		q.readTo = e.ID
	}
	q.start()
}

// count makes a message part of what waits, when it is seen first. q.mu is held.
func (q *queue) count(e *store.Entry) {
	if e.Op != store.OpSend || e.ID <= q.countedTo {
		return
	}
	if q.waiting == 0 {
		q.oldest = e.AcceptedAt
	}
	q.countedTo = e.ID
	q.lengthen(1)
}

// start begins work on the line if nobody does and there is work. q.mu is held.
func (q *queue) start() {
	if q.lingers {
		q.nudge()
	}
	if q.running || !q.d.started() || q.empty() {
		return
	}
	q.running = true
	q.d.wg.Go(q.run)
}

// reload forgets the head: it is read again from the database. q.mu is held.
func (q *queue) reload() {
	q.d.release(q.headSize)
	q.head, q.headSize, q.readTo, q.more, q.missed = nil, 0, 0, true, true
}

// empty tells whether nothing is left in the line. q.mu is held.
func (q *queue) empty() bool { return len(q.head) == 0 && !q.more }

// run works on the line until it is empty or the dispatcher stops.
func (q *queue) run() {
	for q.ready() {
		if !q.d.enter(q) {
			continue
		}
		q.step()
		q.d.leave()
	}
}

// step sends the first entry, if there is one.
func (q *queue) step() {
	e, err := q.take()
	if err != nil {
		q.d.log.Error("cannot read the outbox", zap.Error(err))
		q.delay(time.Second)
		return
	}
	if e == nil {
		return
	}
	q.d.attempt(q, e)
	q.mu.Lock()
	q.inFlight = 0
	q.mu.Unlock()
}

// ready waits until an attempt may be made in this room. It answers false, and the work on the line ends, when the
// line is empty or the dispatcher stops.
func (q *queue) ready() bool {
	for {
		wait, ok := q.pause()
		if !ok {
			return false
		}
		if wait <= 0 {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-q.wake:
		case <-q.d.stopping:
		}
		timer.Stop()
	}
}

// pause returns how long to wait before the next attempt. It ends the work on the line by answering false.
func (q *queue) pause() (time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.d.isStopping() || q.empty() && q.lingers {
		q.running, q.lingers = false, false
		return 0, false
	}
	if q.lingers = q.empty(); q.lingers {
		return lingerFor, true
	}
	if len(q.uncommitted) >= store.Window || q.room.Encrypted {
		return math.MaxInt64, true
	}
	wait := time.Until(q.notBefore)
	if wait > firstDelay && len(q.head) > 0 {
		q.reload() // a room that has to wait need not hold memory
	}
	return wait, true
}

// take returns the first entry and marks it as being sent; nil if there is none.
func (q *queue) take() (*store.Entry, error) {
	q.edit.Lock()
	defer q.edit.Unlock()
	if err := q.fill(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.head) == 0 {
		return nil, nil
	}
	e := q.head[0]
	q.inFlight, q.oldest = e.ID, e.AcceptedAt
	return e, nil
}

// fill reads the next page if the head is empty. q.edit is held.
func (q *queue) fill() error {
	for {
		q.mu.Lock()
		if len(q.head) > 0 || !q.more {
			q.mu.Unlock()
			return nil
		}
		after := q.readTo
		q.missed = false
		q.mu.Unlock()
		limit := headEntries
		if q.d.held.Load() >= headsBudget {
			limit = 1 // many rooms have much to send: each may hold what it sends
		}
		page, more, err := q.d.store.Pending(context.Background(), q.id, after, limit, headBytes)
		if err != nil {
			return err
		}
		q.accept(page, more)
	}
}

// accept takes in a page that was read. Entries whose rest the database does not know yet are passed over.
func (q *queue) accept(page []*store.Entry, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range page {
		q.readTo = e.ID
		q.count(e)
		if _, ok := q.uncommitted[e.ID]; ok {
			continue
		}
		q.recall(e)
		q.head = append(q.head, e)
		q.headSize += e.Size()
	}
	q.d.take(q.headSize)
	q.more = more || q.missed
	if !q.more && len(q.head) == 0 {
		q.lengthen(-q.waiting)
	}
}

// rested takes the entry that is being sent out of the line: it is at rest.
func (q *queue) rested(e *store.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.uncommitted[e.ID] = struct{}{}
	q.drop(e.ID)
}

// drop takes an entry out of the head. q.mu is held.
func (q *queue) drop(id int64) {
	q.lengthen(-1)
	for i, e := range q.head {
		if e.ID == id {
			q.headSize -= e.Size()
			q.d.release(e.Size())
			q.head = append(q.head[:i:i], q.head[i+1:]...)
			return
		}
	}
}

// committed is told that the database knows of an entry's rest.
func (q *queue) committed(id int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.uncommitted[id]; !ok {
		return
	}
	full := len(q.uncommitted) >= store.Window
	delete(q.uncommitted, id)
	if full {
		q.nudge()
	}
}

// delay puts the next attempt off.
func (q *queue) delay(d time.Duration) {
	q.mu.Lock()
	q.notBefore = time.Now().Add(d)
	q.mu.Unlock()
}

// limit puts the next attempt off because the homeserver has told so: nothing brings it forward.
func (q *queue) limit(d time.Duration) {
	q.mu.Lock()
	q.limited = time.Now().Add(d)
	q.mu.Unlock()
}

// retry lets the next attempt be made now.
func (q *queue) retry() {
	q.mu.Lock()
	q.notBefore, q.joinTried = q.limited, false
	q.start()
	q.mu.Unlock()
	q.nudge()
}

// change runs fn, which changes rows of this line in the database and returns by how many the line is longer then.
// It answers false, without running fn, if the entry id is being sent now, or with id 0 if any is.
func (q *queue) change(id int64, fn func() (longer int64, err error)) (bool, error) {
	q.edit.Lock()
	defer q.edit.Unlock()
	q.mu.Lock()
	busy := q.inFlight != 0 && (id == 0 || q.inFlight == id)
	q.mu.Unlock()
	if busy {
		return false, nil
	}
	longer, err := fn()
	if err != nil {
		return true, err
	}
	q.mu.Lock()
	q.lengthen(longer)
	q.reload() // what is being sent is not read twice: only the goroutine that sends reads
	q.start()
	q.mu.Unlock()
	q.nudge()
	return true, nil
}

// lengthen changes how many entries wait. q.mu is held.
func (q *queue) lengthen(by int64) {
	by = max(by, -q.waiting)
	q.waiting += by
	q.d.depth.Add(by)
}
