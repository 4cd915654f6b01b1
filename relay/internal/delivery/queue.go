package delivery

import (
	"context"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
)

const (
	pageEntries  = 32        // entries of a room that are read at once
	pageBytes    = 256 << 10 // …and about how many bytes
	slice        = time.Second
	releaseAfter = time.Second // a room that waits longer holds no memory
	blockedFor   = 15 * time.Minute
)

// queue sends one room's entries. Its goroutine reads them from the database a page at a time. Messages that are committed
// after a page was read are appended to it without another read if possible; see [added].
type queue struct {
	d    *Delivery
	id   int64 // rooms.id
	wake chan struct{}

	making sync.Mutex // held while the room's id is found out
	saving sync.Mutex // held while the room is stored: what is stored last is the newest

	mu           sync.Mutex
	room         store.Room
	more         bool      // the database may have entries besides
	stale        bool      // what was read may have changed
	added        added     // what follows the page
	notBefore    time.Time // no attempt before; not stored
	limitedUntil time.Time // …and none at all before: the homeserver asked for it
	joinTried    bool      // since the last success
	outdated     bool      // what the attempt under way finds may be out of date
	lastError    string    // why the last attempt failed, "" if it did not
	flight       flight

	// The goroutine's own.
	page      []*post.Entry
	began     int64                      // since when the attempt under way may reach its room, 0 before
	followUps struct{ id, failed int64 } // the follow-up that failed last, and how often
}

// flight is an attempt that may reach its room; zero if none is under way.
type flight struct {
	entry, began int64
	device       string
}

// setFlight stores the attempt under way.
func (q *queue) setFlight(f flight) {
	q.mu.Lock()
	q.flight = f
	q.mu.Unlock()
}

// inFlight returns since when an attempt at an entry may have reached the room, and its device; 0 if none is under way.
func (q *queue) inFlight(entry int64) (began int64, device string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flight.entry != entry {
		return 0, ""
	}
	return q.flight.began, q.flight.device
}

func newQueue(d *Delivery, room store.Room) *queue {
	return &queue{d: d, id: room.ID, room: room, more: true, wake: make(chan struct{}, 1)}
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

// changed records a change of the room's entries and wakes the goroutine.
func (q *queue) changed(c store.Change) {
	q.mu.Lock()
	q.more = q.more || q.stale || !q.added.take(c.Message, q.d.store.Edits())
	q.stale = q.stale || c.Kind != store.Added
	removal := c.Kind == store.Altered && q.room.BlockedAs == string(matrix.ClassEncrypted) // which works there, perhaps
	q.mu.Unlock()
	if c.Kind == store.Retry || removal {
		q.retry()
	} else {
		q.nudge()
	}
}

// retry lets the next attempt be made now.
func (q *queue) retry() {
	q.mu.Lock()
	q.notBefore, q.joinTried, q.more, q.outdated = q.limitedUntil, false, true, true
	q.mu.Unlock()
	q.nudge()
}

// markStale makes an attempt under way be followed by another at once if it fails for a reason that may be gone. It reports
// whether one has already failed for such a reason.
func (q *queue) markStale() (failed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.outdated = q.outdated || q.room.Encrypted
	return q.room.BlockedAs == string(matrix.ClassEncrypted)
}

// retryNow cancels the backoff if the reason of the last failure may be gone.
func (q *queue) retryNow() {
	q.mu.Lock()
	if q.outdated {
		q.notBefore = q.limitedUntil
	}
	q.mu.Unlock()
}

// retryAfter puts the next attempt off.
func (q *queue) retryAfter(d time.Duration) {
	q.mu.Lock()
	q.notBefore = time.Now().Add(d)
	q.mu.Unlock()
}

// limit puts the next attempt off because the homeserver asked for it: nothing brings it forward.
func (q *queue) limit(d time.Duration) {
	q.mu.Lock()
	q.limitedUntil = time.Now().Add(d)
	q.mu.Unlock()
}

// run sends what the room has until the delivery stops.
func (q *queue) run() {
	for q.wait() {
		if q.d.enter(q) {
			q.work()
			q.d.leave()
		}
	}
}

// wait waits until there may be something to send now. It returns false if the delivery stops.
func (q *queue) wait() bool {
	for !q.d.isStopping() {
		wait := q.due()
		if wait <= 0 {
			return true
		}
		if wait > releaseAfter {
			q.release()
		}
		q.sleep(wait)
	}
	return false
}

// sleep waits for a while, or until it is woken.
func (q *queue) sleep(wait time.Duration) {
	var timer <-chan time.Time
	if wait != math.MaxInt64 {
		t := time.NewTimer(wait)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
	case <-q.wake:
	case <-q.d.stopping:
	}
}

// due returns how long to wait before the next attempt; [math.MaxInt64] without any.
func (q *queue) due() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.page)+len(q.added.entries) == 0 && !q.more {
		return math.MaxInt64
	}
	return time.Until(q.notBefore)
}

// work sends entries until none is left, one has to wait, or others want their turn.
func (q *queue) work() {
	for until := time.Now().Add(slice); time.Now().Before(until); {
		e, err := q.next()
		if err != nil {
			q.d.log.Error("cannot read the outbox", zap.Error(err))
			q.retryAfter(time.Second)
			return
		}
		if e == nil || q.due() > 0 || !q.d.rate.Wait(q.d.stopping) {
			return
		}
		q.d.attempt(q, e)
		if q.due() > 0 || q.d.isStopping() || q.d.pause.Closed() {
			return
		}
	}
}

// next returns the first entry; nil if there is none.
func (q *queue) next() (*post.Entry, error) {
	q.mu.Lock()
	stale := q.stale
	q.mu.Unlock()
	if stale {
		q.release()
	}
	if len(q.page) == 0 {
		if err := q.read(); err != nil {
			return nil, err
		}
	}
	if len(q.page) == 0 {
		return nil, nil
	}
	return q.page[0], nil
}

// read makes what was added the next page. If nothing was, it reads the page.
func (q *queue) read() error {
	q.mu.Lock()
	if q.page = q.added.entries; len(q.page) > 0 {
		q.added.entries = nil
		q.mu.Unlock()
		return nil
	}
	q.more = false // what comes from now on sets it again
	q.added.left = 0
	q.mu.Unlock()
	edits := q.d.store.Edits()
	page, more, err := q.d.store.Pending(context.Background(), q.id, pageEntries, pageBytes)
	q.mu.Lock()
	q.more = q.more || more || err != nil
	q.added.follow(page, edits)
	q.mu.Unlock()
	q.page = page
	return err
}

// release forgets the page: it is read again from the database.
func (q *queue) release() {
	q.mu.Lock()
	q.stale = false
	q.more = q.more || len(q.page)+len(q.added.entries) > 0
	q.added.entries = nil
	q.mu.Unlock()
	q.page = nil
}

// finish takes the first entry, which is final, out and reports its outcome.
func (q *queue) finish(e *post.Entry, o *store.Outcome) {
	q.page[0] = nil // it is not needed until the whole page is done
	q.page = q.page[1:]
	q.d.record(o)
	if o.Spreads() { // the rest of a message precedes all others
		q.changed(store.Change{Kind: store.Altered})
	}
}

// keep leaves the first entry for another attempt and reports its outcome.
func (q *queue) keep(e *post.Entry, o *store.Outcome) {
	q.mu.Lock()
	q.lastError = e.Error
	q.mu.Unlock()
	q.d.record(o)
}

// replacedSince returns the room that an attempt of that time went to, if another has taken its place since; else "".
func (q *queue) replacedSince(attempt int64) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if attempt == 0 || attempt >= q.room.ReplacedAt {
		return ""
	}
	return q.room.Replaced
}

// why returns why the last attempt in the room failed; "" if it did not.
func (q *queue) why() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lastError
}

// failedAgain counts a failure of a follow-up, and returns how many it has had since this start.
func (q *queue) failedAgain(id int64) int64 {
	if q.followUps.id != id {
		q.followUps.id, q.followUps.failed = id, 0
	}
	q.followUps.failed++
	return q.followUps.failed
}
