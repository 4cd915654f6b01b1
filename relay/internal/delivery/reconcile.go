package delivery

import (
	"context"
	"errors"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
)

const (
	// A homeserver remembers a transaction for a day at most (Synapse: 24 hours); past this age of the
	// first attempt the room's history is asked instead, or always with Options.SearchFirst.
	repeatWithin = 23 * time.Hour
	findMargin   = 10 * time.Minute // clocks differ: history is read back to this long before the acceptance
)

var (
	// errUnproven says that it is unknown whether an event is in the room.
	errUnproven = errors.New("the room's history does not show whether the message arrived")

	errRestUnproven = &matrix.SendError{Class: matrix.ClassDead, Reason: "whether it is in the room already is unknown"}
)

// doubtful reports whether an earlier attempt may have arrived although the homeserver would not deduplicate a
// repeat.
func (d *Delivery) doubtful(e *post.Entry, device string) bool {
	return d.o.SearchFirst || e.Device != device || time.Since(time.UnixMilli(e.FirstAttemptAt)) > repeatWithin
}

// find searches for an event of ours. It returns the event's id, or "" if it certainly was not sent.
func (d *Delivery) find(ctx context.Context, roomID, txn string, acceptedAt int64) (string, error) {
	found, err := d.sender.Find(ctx, roomID, txn, time.UnixMilli(acceptedAt).Add(-findMargin))
	if err == nil && found.EventID == "" && !found.Complete {
		err = errUnproven
	}
	return found.EventID, err
}

// reconcile finds out whether an earlier attempt arrived. It returns the event's id, or "" if it certainly did not: then
// the entry was never attempted. Its bytes are dropped: another device or room cannot use what is encrypted, and the content may be newer.
func (d *Delivery) reconcile(ctx context.Context, roomID string, e *post.Entry) (string, error) {
	id, err := d.find(ctx, roomID, e.Txn, e.AcceptedAt)
	if err == nil && id == "" {
		e.FirstAttemptAt, e.Device, e.Wire = 0, "", nil
	}
	return id, err
}

// reconcileBefore finds out whether an earlier attempt arrived in the room that was replaced since. Where the bot is not
// let look, it stays unknown.
func (d *Delivery) reconcileBefore(ctx context.Context, old string, e *post.Entry) (string, error) {
	id, err := d.reconcile(ctx, old, e)
	switch classOf(err).Class {
	case matrix.ClassBlock, matrix.ClassJoin, matrix.ClassDead, matrix.ClassReconcile:
		return "", errUnproven
	}
	return id, err
}

// arrived returns the event of an earlier attempt if it arrived and the homeserver would not deduplicate a repeat. While that is
// unknown nothing is sent again: a person decides about a message, and its follow-ups are given up.
func (d *Delivery) arrived(ctx context.Context, q *queue, room store.Room, device string, e *post.Entry) (id string, err error) {
	doubtful := d.doubtful(e, device) // of the room as it is: one that it replaced is asked first
	if old := q.replacedSince(e.FirstAttemptAt); old != "" {
		id, err = d.reconcileBefore(ctx, old, e)
	}
	if id == "" && err == nil && doubtful {
		id, err = d.reconcile(ctx, room.RoomID, e)
	}
	if errors.Is(err, errUnproven) && e.Kind != post.KindMessage {
		err = errRestUnproven
	}
	return id, err
}
