package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// succeeded notes that the homeserver took an event.
func (d *dispatcher) succeeded(q *queue, e *store.Entry, eventID string) {
	d.gate.succeeded()
	d.pace.succeeded()
	d.works(q)
	e.Attempts++
	e.Error, e.Code = "", ""
	if e.Op == store.OpSend && e.Step != stepFile {
		d.metrics.sent.Inc()
		d.metrics.delivery.Observe(time.Since(time.UnixMilli(e.QueuedAt)).Seconds())
		e.EventID = eventID
		if e.Step == stepCut {
			d.fileFollows(q, e)
			return
		}
		d.finish(q, e, store.Sent, store.Outcome{SentNow: true})
		return
	}
	o := store.Outcome{}
	if e.Op == store.OpRedact {
		o.TargetID = e.MessageID
	}
	d.finish(q, e, store.Sent, o)
}

// fileFollows keeps an entry whose event was cut at the head of its line, for the file with its full text.
func (d *dispatcher) fileFollows(q *queue, e *store.Entry) {
	e.Step, e.Wire, e.FirstAttemptAt, e.State, e.NextAt = stepFile, nil, 0, store.Queued, 0
	q.remember(e)
	d.report(store.Outcome{Entry: *e, SentNow: true})
}

// works notes that events reach a room.
func (d *dispatcher) works(q *queue) {
	q.mu.Lock()
	q.joinTried, q.tried = false, store.Entry{}
	parked := q.room.Parked != ""
	q.mu.Unlock()
	if parked {
		d.unpark(q)
	}
}

// failed decides what a failed attempt means for the entry, its room and all sending.
func (d *dispatcher) failed(q *queue, e *store.Entry, owner string, err error) {
	if errors.Is(err, errUnproven) {
		d.rest(q, e, store.Ambiguous, "It cannot be told whether the message arrived: "+
			"look into the room, then redeliver or cancel it.", "")
		return
	}
	f := classOf(err)
	e.Error, e.Code = f.Sentence(), f.Code
	if d.ctx.Err() != nil { // stopped in the middle: repeated under its transaction id after the next start
		d.again(q, e, 0, true)
		return
	}
	switch f.Class {
	case ClassRetry:
		if behind(e) && f.Status != 0 && q.failedBehind(e.ID) >= behindTries {
			d.refused(q, e, f)
			return
		}
		if !f.Alone {
			d.gate.failed(q.id, f.Sentence())
		}
		e.Attempts++
		d.again(q, e, backoff(e.Attempts), true)
	case ClassAway:
		d.gate.shut(f.Class, f.Sentence())
		e.Attempts++
		d.again(q, e, 0, true)
	case ClassRelogin, ClassLocked:
		d.gate.shut(f.Class, f.Sentence())
		d.again(q, e, 0, false)
	case ClassWait:
		d.limited(q, e, f.RetryAfter)
	case ClassJoin:
		d.join(q, e, f)
	case ClassPark:
		if behind(e) {
			d.refused(q, e, f)
			return
		}
		d.park(q, e, f)
	case ClassEncrypted:
		d.encrypted(q)
		d.park(q, e, f)
	case ClassTooLarge:
		d.shrink(q, e, owner, f)
	case ClassSettle:
		if r := f.Replaced; r != nil {
			d.replaced(r.Old, r.New)
		}
		d.again(q, e, max(f.RetryAfter, leastWait/10), false) // if there were earlier attempts, their device makes the entry doubtful
	default:
		d.refused(q, e, f)
	}
}

// behindTries is how often a homeserver may fail, with an answer, at what is behind a
// message: with the pauses between that is about half an hour.
const behindTries = 20

// behind tells whether an entry is about a message that is in its room: its removal, or
// its file. Those that wait for the room do not wait for what is refused to it, nor for
// ever for what fails.
func behind(e *store.Entry) bool { return e.Op != store.OpSend || e.Step == stepFile }

// again leaves an entry at the head of its line for another attempt. arrived says that this one may have reached
// the homeserver all the same; from then on the bytes stay the same.
func (d *dispatcher) again(q *queue, e *store.Entry, wait time.Duration, arrived bool) {
	if arrived && e.FirstAttemptAt == 0 {
		e.FirstAttemptAt = q.began // 0 when there was no room to send to
	}
	if e.FirstAttemptAt == 0 {
		e.Wire = nil // never arrived: render it anew
	}
	e.State, e.NextAt = store.RetryWait, time.Now().Add(wait).UnixMilli()
	q.delay(wait)
	q.remember(e)
	d.report(store.Outcome{Entry: *e})
}

// limited waits as long as a 429 says.
func (d *dispatcher) limited(q *queue, e *store.Entry, wait time.Duration) {
	wait = max(wait, leastWait)
	d.metrics.rateLimited.Add(wait.Seconds())
	d.pace.refused(q.id, wait)
	q.limit(wait)
	d.again(q, e, wait+rand.N(100*time.Millisecond), false)
}

// join tries to come into the room, once until something has been sent there.
func (d *dispatcher) join(q *queue, e *store.Entry, f *SendError) {
	q.mu.Lock()
	tried, roomID := q.joinTried, q.room.RoomID
	q.joinTried = true
	q.mu.Unlock()
	if tried {
		d.park(q, e, f)
		return
	}
	if err := d.rooms.Join(d.ctx, roomID); err != nil {
		j := classOf(err)
		if j.Class == ClassJoin || j.Class == ClassPark || j.Class == ClassDead {
			d.park(q, e, f)
			return
		}
		q.mu.Lock()
		q.joinTried = false // not refused: the homeserver is away, or tells to wait
		q.mu.Unlock()
		d.failed(q, e, "", err)
		return
	}
	d.again(q, e, 0, false)
}

// park lets a room wait until somebody mends it. It is looked at again now and then.
func (d *dispatcher) park(q *queue, e *store.Entry, f *SendError) {
	d.parkRoom(q, f.Class, f.Sentence())
	q.mu.Lock()
	q.joinTried = false
	q.mu.Unlock()
	d.again(q, e, parkedFor/2+rand.N(parkedFor), false)
}

func (d *dispatcher) parkRoom(q *queue, class Class, reason string) {
	known := false
	q.setRoom(func(r *store.Room) {
		if r.Parked == "" {
			r.ParkedAt = time.Now().UnixMilli()
		}
		known = r.Parked == reason
		r.Parked, r.ParkedAs = reason, string(class)
	})
	d.saveRoom(q)
	if known {
		return
	}
	d.log.Warn("a room is parked", zap.String("room", q.Room().RoomID), zap.String("reason", reason))
}

// unpark notes that nothing is wrong with a room any more.
func (d *dispatcher) unpark(q *queue) {
	q.setRoom(func(r *store.Room) { r.Parked, r.ParkedAs, r.ParkedAt = "", "", 0 })
	d.saveRoom(q)
}

// encrypted remembers for ever that a room is encrypted.
func (d *dispatcher) encrypted(q *queue) {
	q.setRoom(func(r *store.Room) { r.Encrypted = true })
	d.saveRoom(q)
}

// saveRoom stores what is remembered of a room. If that fails the log says so, and it is stored with the next change.
func (d *dispatcher) saveRoom(q *queue) {
	if err := d.storeRoom(q); err != nil {
		d.log.Error("cannot store a room's state", zap.Int64("room", q.id), zap.Error(err))
	}
}

func (d *dispatcher) storeRoom(q *queue) error {
	q.saving.Lock()
	defer q.saving.Unlock()
	return d.store.SaveRoom(context.WithoutCancel(d.ctx), q.Room())
}

// shrink makes an event smaller that the homeserver found too large; the second time it is dead.
func (d *dispatcher) shrink(q *queue, e *store.Entry, owner string, f *SendError) {
	if e.Step == stepFile || e.Op != store.OpSend || e.Shrunk {
		d.refused(q, e, f)
		return
	}
	e.Shrunk = true
	if err := d.render(e, owner); err != nil {
		d.refused(q, e, classOf(err))
		return
	}
	e.FirstAttemptAt = 0
	e.State, e.NextAt = store.Queued, 0
	q.remember(e)
	d.report(store.Outcome{Entry: *e})
}

// refused ends an entry that the homeserver will never take. A message whose event is sent stays so without its
// file.
func (d *dispatcher) refused(q *queue, e *store.Entry, f *SendError) {
	if e.Step == stepFile {
		e.Error = noFile(f.Sentence())
		d.finish(q, e, store.Sent, store.Outcome{})
		return
	}
	e.Attempts++
	if e.Op == store.OpSend {
		d.metrics.dead.WithLabelValues("refused").Inc()
	}
	d.rest(q, e, store.Dead, f.Sentence(), f.Code)
}

// noFile says that a message's event is in the room without the file that should follow.
func noFile(reason string) string {
	return "The message was cut, and its full text could not be attached: " + reason
}

// notRemoved says that a message stays in the room though it was withdrawn.
func notRemoved(reason string) string {
	return "The event could not be removed from the room: " + reason
}

// expire gives up an entry that has waited too long.
func (d *dispatcher) expire(q *queue, e *store.Entry) {
	if e.Error == "" { // it waited behind others
		e.Error = q.lastError()
	}
	if e.Step == stepFile {
		d.refused(q, e, &SendError{Reason: tooOld(d.maxAge, e.Error)})
		return
	}
	if e.Op == store.OpSend {
		d.metrics.dead.WithLabelValues("age").Inc()
	}
	d.rest(q, e, store.Dead, tooOld(d.maxAge, e.Error), e.Code)
}

func tooOld(age time.Duration, last string) string {
	s := fmt.Sprintf("Given up after %v.", age)
	if last != "" {
		s += " The last reason: " + last
	}
	return s
}

// rest ends an entry without success.
func (d *dispatcher) rest(q *queue, e *store.Entry, state store.State, reason, code string) {
	e.Error, e.Code = reason, code
	o := store.Outcome{DeadNow: state == store.Dead}
	if e.Op == store.OpRedact {
		o.TargetID, o.DeadNow = e.MessageID, false
		o.Failure = notRemoved(reason)
	}
	d.finish(q, e, state, o)
}

// finish takes an entry out of its line and reports it. An entry that may have arrived and is not known to have keeps its
// bytes; the others need them no longer.
func (d *dispatcher) finish(q *queue, e *store.Entry, state store.State, o store.Outcome) {
	e.State, e.NextAt = state, 0
	if state == store.Sent || e.FirstAttemptAt == 0 {
		e.Wire = nil
	}
	q.rested(e)
	o.Entry = *e
	d.report(o)
}

func (d *dispatcher) report(o store.Outcome) {
	o.At = time.Now().UnixMilli()
	d.store.Report(&o)
}
