package delivery

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"slipway/relay/internal/encryption"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/message"
	"slipway/relay/internal/store"
)

// succeeded notes that the homeserver took an event.
func (d *Delivery) succeeded(q *queue, e *message.Entry, eventID string) {
	d.pause.succeeded()
	d.rate.succeeded()
	d.works(q, e)
	e.Attempts++
	e.Error, e.Code = "", ""
	o := store.Outcome{}
	switch {
	case e.Kind == message.Redact && eventID == "": // there was nothing to remove
		o.Cleared = true
		d.finish(q, e, message.StateCancelled, o)
		return
	case e.Kind == message.Send:
		d.metrics.sent.Inc()
		d.metrics.latency.Observe(time.Since(time.UnixMilli(e.QueuedAt)).Seconds())
	}
	if e.Wire == nil && (e.Kind == message.Send || e.Kind == message.Part) { // found before it was rendered since the last start
		_ = d.render(q, e) // what cannot be rendered was not sent
	}
	if e.Cut {
		o.FollowUp = d.rest(q, e)
	}
	e.EventID = eventID
	d.finish(q, e, message.StateSent, o)
}

// works notes that events reach a room.
func (d *Delivery) works(q *queue, e *message.Entry) {
	q.mu.Lock()
	q.joinTried, q.lastError, q.retrying = false, "", ""
	blocked := q.room.Blocked != "" && (e.Kind != message.Redact || q.room.BlockedAs != string(matrix.ClassEncrypted)) // where removals still work
	q.mu.Unlock()
	if blocked {
		d.unblock(q)
	}
}

// failed decides what a failed attempt means for the entry, its room and all sending.
func (d *Delivery) failed(q *queue, e *message.Entry, err error) {
	if errors.Is(err, errUnproven) {
		d.inconclusive(q, e)
		return
	}
	f := d.withoutMembers(q, classOf(err))
	e.Error, e.Code = f.Sentence(), f.Code
	if d.ctx.Err() != nil { // stopped in the middle: repeated under its transaction id after the next start
		d.again(q, e, 0, true)
		return
	}
	switch f.Class {
	case matrix.ClassRetry:
		if e.After != 0 && f.Status != 0 && q.failedAgain(e.ID) >= followUpTries {
			d.refused(q, e, f)
			return
		}
		if !f.Alone {
			d.pause.failed(q.id, f.Sentence())
		}
		e.Attempts++
		d.again(q, e, backoff(e.Attempts), true)
	case matrix.ClassAway:
		d.pause.begin(f.Class, f.Sentence())
		e.Attempts++
		d.again(q, e, 0, true)
	case matrix.ClassRelogin, matrix.ClassLocked:
		d.pause.begin(f.Class, f.Sentence())
		d.again(q, e, 0, false)
	case matrix.ClassWait:
		d.limited(q, e, f.RetryAfter)
	case matrix.ClassJoin:
		d.join(q, e, f)
	case matrix.ClassBlock:
		if e.After != 0 { // it does not wait for what is refused to it, and others do not wait for it
			d.refused(q, e, f)
			return
		}
		d.blocked(q, e, f)
	case matrix.ClassEncrypted:
		d.encrypted(q.Room().RoomID)
		if f.Encrypt {
			d.again(q, e, 0, false)
			return
		}
		d.blocked(q, e, f)
	case matrix.ClassTooLarge:
		d.shrink(q, e, f)
	case matrix.ClassReconcile:
		if r := f.Replaced; r != nil {
			d.replaced(r.Old, r.New)
		}
		d.again(q, e, max(f.RetryAfter, leastWait/10), false) // if there were earlier attempts, their device makes the entry doubtful
	default:
		d.refused(q, e, f)
	}
}

// withoutMembers names the cause if a room that the bot made has no members because the owner has no Matrix ID.
func (d *Delivery) withoutMembers(q *queue, f *matrix.SendError) *matrix.SendError {
	if !errors.Is(f, encryption.ErrNoReaders) || errors.Is(f, encryption.ErrReadersAway) {
		return f
	}
	user, err := d.store.RoomUser(d.ctx, q.id)
	if err != nil || user.OwnerMatrixID != "" || !user.Own {
		return f
	}
	named := *f
	named.Reason = message.NobodyInvited(user.OwnerName)
	return &named
}

// followUpTries is how often a homeserver may fail, with an answer, at a follow-up: with the pauses between that is about
// half an hour.
const followUpTries = 20

// inconclusive ends an entry of which nobody can tell whether it arrived.
func (d *Delivery) inconclusive(q *queue, e *message.Entry) {
	if e.Kind == message.Redact { // the message says so already
		d.finish(q, e, message.StateAmbiguous, store.Outcome{})
		return
	}
	d.final(q, e, message.StateAmbiguous, "It cannot be told whether the message arrived: look into the room, then redeliver or cancel it.", "")
}

// again leaves an entry at the head of its queue for another attempt. arrived says that this one may have reached
// the homeserver all the same; from then on the bytes stay the same.
func (d *Delivery) again(q *queue, e *message.Entry, wait time.Duration, arrived bool) {
	if arrived && e.FirstAttemptAt == 0 {
		e.FirstAttemptAt = q.began // 0 when there was no room to send to
	}
	if e.FirstAttemptAt == 0 {
		e.Wire = nil // never arrived: render it anew
	}
	e.State, e.NextAt = message.StateRetryWait, time.Now().Add(wait).UnixMilli()
	q.delay(wait)
	q.keep(e)
}

// limited waits as long as a 429 says.
func (d *Delivery) limited(q *queue, e *message.Entry, wait time.Duration) {
	wait = max(wait, leastWait)
	d.metrics.rateLimited.Add(wait.Seconds())
	d.rate.refused(q.id, wait)
	q.limit(wait)
	d.again(q, e, wait+rand.N(100*time.Millisecond), false)
}

// join tries to come into the room, once until something has been sent there.
func (d *Delivery) join(q *queue, e *message.Entry, f *matrix.SendError) {
	q.mu.Lock()
	tried, roomID := q.joinTried, q.room.RoomID
	q.joinTried = true
	q.mu.Unlock()
	if tried {
		d.blocked(q, e, f)
		return
	}
	if err := d.o.Rooms.Join(d.ctx, roomID); err != nil {
		switch j := classOf(err); j.Class {
		case matrix.ClassJoin, matrix.ClassBlock, matrix.ClassDead:
			d.blocked(q, e, f)
		default: // not refused: the homeserver is away, or tells to wait
			q.mu.Lock()
			q.joinTried = false
			q.mu.Unlock()
			d.failed(q, e, err)
		}
		return
	}
	d.again(q, e, 0, false)
}

// blocked lets a room wait until a person does something. It is looked at again now and then.
func (d *Delivery) blocked(q *queue, e *message.Entry, f *matrix.SendError) {
	d.block(q, f.Class, f.Sentence())
	q.mu.Lock()
	q.joinTried = false
	q.mu.Unlock()
	d.again(q, e, blockedFor/2+rand.N(blockedFor), false)
	q.hasten() // not before: what is heard meanwhile must not be put off
}

// shrink makes an event smaller that the homeserver found too large; the second time it is dead.
func (d *Delivery) shrink(q *queue, e *message.Entry, f *matrix.SendError) {
	if e.Kind != message.Send || e.Shrunk {
		d.refused(q, e, f)
		return
	}
	e.Shrunk = true
	if err := d.render(q, e); err != nil {
		d.refused(q, e, classOf(err))
		return
	}
	e.FirstAttemptAt = 0
	e.State, e.NextAt = message.StateQueued, 0
	q.keep(e)
}

// refused ends an entry that the homeserver will never take.
func (d *Delivery) refused(q *queue, e *message.Entry, f *matrix.SendError) {
	e.Attempts++
	if e.Kind == message.Send {
		d.metrics.dead.WithLabelValues("refused").Inc()
	}
	d.final(q, e, message.StateDead, f.Sentence(), f.Code)
}

// expire gives up an entry that has waited too long.
func (d *Delivery) expire(q *queue, e *message.Entry) {
	if e.Error == "" { // it waited behind others
		e.Error = q.why()
	}
	if e.Kind == message.Send {
		d.metrics.dead.WithLabelValues("age").Inc()
	}
	d.final(q, e, message.StateDead, tooOld(d.o.MaxAge, e.Error), e.Code)
}

func tooOld(age time.Duration, last string) string {
	s := fmt.Sprintf("Given up after %v.", age)
	if last != "" {
		s += " The last reason: " + last
	}
	return s
}

// incomplete says that the first event of a message is in the room, but not all that should follow.
func incomplete(reason string) string {
	return "The rest of the message could not be sent: " + reason
}

// notRemoved says that a message stays in the room though it was withdrawn.
func notRemoved(reason string) string {
	return "The event could not be removed from the room: " + reason
}

// final ends an entry without success. What that means for the message is said there.
func (d *Delivery) final(q *queue, e *message.Entry, state message.State, reason, code string) {
	e.Error, e.Code = reason, code
	o := store.Outcome{}
	switch {
	case e.Kind == message.File:
		o.Failure = incomplete(reason)
	case e.Kind == message.Part:
		o.Failure = incomplete(reason)
		if state == message.StateDead {
			o.FollowUp = &message.Entry{Kind: message.File, After: e.After, Room: e.Room, Txn: e.TargetTxn + fileSuffix, QueuedAt: time.Now().UnixMilli()}
		}
	case e.Kind == message.Redact && e.EventID != "":
		o.Failure = notRemoved(reason)
	}
	d.finish(q, e, state, o)
}

// finish takes an entry out of its queue and reports it. An entry that may have arrived and is not known to have keeps its
// bytes; the others need them no longer.
func (d *Delivery) finish(q *queue, e *message.Entry, state message.State, o store.Outcome) {
	e.State, e.NextAt = state, 0
	if state == message.StateSent || e.FirstAttemptAt == 0 {
		e.Wire = nil
	}
	o.Entry = *e
	q.finish(&o)
}

func (d *Delivery) report(o *store.Outcome) int64 {
	o.At = time.Now().UnixMilli()
	o.Entry.Title, o.Entry.Body, o.Entry.Extras = "", "", "" // not changed, and not to be held in memory
	return d.store.Report(o)
}
