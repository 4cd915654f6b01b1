package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/encryption"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
)

// step takes the step that a fact means for the first entry of a queue, records the outcome to the store and carries out its effects.
func (d *Delivery) step(q *queue, e *post.Entry, f post.Fact) {
	o := store.NewOutcome(*e, f, time.Now().UnixMilli())
	*e = o.Entry
	for _, effect := range o.Effects {
		switch effect := effect.(type) {
		case post.Retry:
			q.retryAfter(effect.Wait)
		case post.Count:
			d.count(e, f)
		}
	}
	if e.State.Sendable() {
		q.keep(e, o)
		return
	}
	if e.State.Dead() && e.Kind != post.KindRedaction {
		d.log.Warn("gave up on a message", append(d.roomFields(q), zap.Int64("message", e.MessageID()), zap.Int64("application", e.ApplicationID), zap.String("reason", e.Error))...)
	}
	q.finish(e, o)
}

// count counts a message that was sent or given up.
func (d *Delivery) count(e *post.Entry, f post.Fact) {
	switch f.(type) {
	case post.Sent:
		d.metrics.sent.Inc()
		d.metrics.latency.Observe(time.Since(time.UnixMilli(e.QueuedAt)).Seconds())
	case post.Expired:
		d.metrics.dead.WithLabelValues("age").Inc()
	default:
		d.metrics.dead.WithLabelValues("refused").Inc()
	}
}

// succeeded handles an attempt that found or sent the entry's event.
func (d *Delivery) succeeded(q *queue, e *post.Entry, eventID string) {
	d.pause.Succeeded()
	d.rate.Succeeded()
	d.works(q, e)
	if e.Kind == post.KindRedaction && eventID == "" {
		d.step(q, e, post.Absent{})
		return
	}
	if e.Wire == nil && (e.Kind == post.KindMessage || e.Kind == post.KindReply) { // found before it was rendered since the last start
		_ = d.render(q, e) // what cannot be rendered was not sent
	}
	sent := post.Sent{EventID: eventID, Said: e.RevisedAt}
	if e.Cut {
		sent.Rest = []post.Entry{e.AsFile(e.QueuedAt)}
	}
	sent.Rest = append(sent.Rest, e.Attached(e.QueuedAt)...)
	d.step(q, e, sent)
}

// works clears a room's errors after a success.
func (d *Delivery) works(q *queue, e *post.Entry) {
	q.mu.Lock()
	q.joinTried, q.lastError = false, ""
	blocked := q.room.Blocked != "" && (e.Kind != post.KindRedaction || q.room.BlockedAs != string(matrix.ClassEncrypted)) // where removals still work
	q.mu.Unlock()
	if blocked {
		d.unblock(q)
	}
}

// failed decides what a failed attempt means for the entry, its room and all sending.
func (d *Delivery) failed(q *queue, e *post.Entry, err error) {
	if errors.Is(err, errUnproven) {
		d.step(q, e, post.Unproven{})
		return
	}
	f := d.withoutMembers(q, classOf(err))
	if d.ctx.Err() != nil { // repeated under its transaction id after the next start
		d.step(q, e, post.Unanswered{Reason: f.Sentence(), Code: f.Code, Began: q.began, Device: e.Device, Interrupted: true})
		return
	}
	switch f.Class {
	case matrix.ClassRetry:
		if e.Target != 0 && f.Status != 0 && q.failedAgain(e.ID) >= followUpTries {
			d.step(q, e, refused(f))
			return
		}
		if !f.Alone {
			d.pause.Failed(q.id, f.Sentence())
		}
		d.unanswered(q, e, f, backoff(e.Attempts+1))
	case matrix.ClassAway:
		d.pause.Begin(f.Class, f.Sentence())
		d.unanswered(q, e, f, 0)
	case matrix.ClassRelogin, matrix.ClassLocked:
		d.pause.Begin(f.Class, f.Sentence())
		d.notSent(q, e, f, 0)
	case matrix.ClassWait:
		d.limited(q, e, f)
	case matrix.ClassJoin:
		d.join(q, e, f)
	case matrix.ClassBlock:
		if e.Kind == post.KindRedaction || e.Kind == post.KindReaction { // the room may still take messages
			d.step(q, e, refused(f))
			return
		}
		d.blocked(q, e, f)
	case matrix.ClassEncrypted:
		d.encrypted(q.Room().RoomID)
		if f.Encrypt {
			d.notSent(q, e, f, 0)
			return
		}
		d.blocked(q, e, f)
	case matrix.ClassTooLarge:
		d.step(q, e, post.TooLarge{Reason: f.Sentence(), Code: f.Code})
	case matrix.ClassReconcile:
		if r := f.Replaced; r != nil {
			d.replaced(r.Old, r.New)
		}
		d.notSent(q, e, f, max(f.RetryAfter, leastWait/10)) // if there were earlier attempts, their device makes the entry doubtful
	default:
		d.step(q, e, refused(f))
	}
}

func refused(f *matrix.SendError) post.Fact {
	return post.Refused{Reason: f.Sentence(), Code: f.Code}
}

// unanswered leaves an entry for another attempt, although this one may have sent it.
func (d *Delivery) unanswered(q *queue, e *post.Entry, f *matrix.SendError, wait time.Duration) {
	d.step(q, e, post.Unanswered{Reason: f.Sentence(), Code: f.Code, Began: q.began, Device: e.Device, Wait: wait})
}

// notSent leaves an entry, which this attempt has certainly not sent, for another one.
func (d *Delivery) notSent(q *queue, e *post.Entry, f *matrix.SendError, wait time.Duration) {
	d.step(q, e, post.NotSent{Reason: f.Sentence(), Code: f.Code, Wait: wait})
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
	named.Reason = post.NobodyInvited(user.OwnerName)
	return &named
}

// followUpTries is how often a homeserver may fail, with an answer, at a follow-up: with the pauses between that is about
// half an hour.
const followUpTries = 20

// limited delays the entry by the 429's wait.
func (d *Delivery) limited(q *queue, e *post.Entry, f *matrix.SendError) {
	wait := max(f.RetryAfter, leastWait)
	d.metrics.rateLimited.Add(wait.Seconds())
	d.rate.Refused(q.id, wait)
	q.limit(wait)
	d.notSent(q, e, f, wait+rand.N(100*time.Millisecond))
}

// join tries to join the room, at most once between two successes.
func (d *Delivery) join(q *queue, e *post.Entry, f *matrix.SendError) {
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
	d.notSent(q, e, f, 0)
}

// blocked lets a room wait until a person does something. It is checked again now and then.
func (d *Delivery) blocked(q *queue, e *post.Entry, f *matrix.SendError) {
	d.block(q, f.Class, f.Sentence())
	q.mu.Lock()
	q.joinTried = false
	q.mu.Unlock()
	d.notSent(q, e, f, blockedFor/2+rand.N(blockedFor))
	q.retryNow() // not before: what is heard meanwhile must not be put off
}

// expire gives up an entry that has waited too long.
func (d *Delivery) expire(q *queue, e *post.Entry) {
	last := e.Error
	if last == "" { // it waited behind others
		last = q.why()
	}
	d.step(q, e, post.Expired{Reason: tooOld(d.o.MaxAge, last)})
}

func tooOld(age time.Duration, last string) string {
	s := fmt.Sprintf("Given up after %v.", age)
	if last != "" {
		s += " The last reason: " + last
	}
	return s
}

// record stores an outcome soon.
func (d *Delivery) record(o *store.Outcome) {
	o.Entry.Content, o.Entry.Plain = post.Content{Attachments: o.Entry.Attachments}, nil // not changed, and not to be held in memory
	d.store.Record(o)
}

const (
	firstDelay   = time.Second
	longestDelay = 5 * time.Minute
)

// backoff returns how long to wait after the nth failed attempt: full jitter over an interval that doubles from one
// second to five minutes. A part of the first delay is always waited, so that a fault is never hammered.
func backoff(attempt int) time.Duration {
	ceiling := longestDelay
	if attempt < 10 {
		ceiling = min(longestDelay, firstDelay<<max(0, attempt-1))
	}
	return firstDelay/4 + rand.N(ceiling)
}

// Expire gives up entries older than MaxAge, even where no attempts are made: in blocked rooms, and in all rooms while
// sending is paused. A room that fails holds up no other.
func (d *Delivery) Expire(ctx context.Context) (failed error) {
	now := time.Now()
	cutoff := now.Add(-d.o.MaxAge).UnixMilli()
	rooms, err := d.store.OldRooms(ctx, cutoff)
	if err != nil {
		return err
	}
	for _, id := range rooms {
		q, err := d.queue(id)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		last := q.Room().Blocked
		if last == "" {
			last, _ = d.pause.State()
		}
		if last == "" {
			last = q.why()
		}
		reason := tooOld(d.o.MaxAge, last)
		entries, dead, err := d.store.Expire(ctx, id, cutoff, now.UnixMilli(), reason)
		failed = errors.Join(failed, err)
		if entries == 0 {
			continue
		}
		d.metrics.dead.WithLabelValues("age").Add(float64(dead))
		d.log.Warn("gave up entries that are older than delivery.maxage", zap.Int64("room", id), zap.Int64("entries", entries), zap.String("reason", reason))
	}
	return failed
}
