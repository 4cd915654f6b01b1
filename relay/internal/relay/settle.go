package relay

import (
	"errors"
	"time"

	"slipway/relay/internal/store"
)

const (
	// A homeserver recognises a repeated transaction for a day at most (Synapse: 24 hours); past this age of the
	// first attempt the room's history is asked instead.
	repeatWithin = 23 * time.Hour
	findMargin   = 10 * time.Minute // clocks differ: history is read back to this long before the acceptance
)

// doubtful tells whether an earlier attempt may have arrived in a way that the homeserver would not recognise a
// repeat of.
func (d *dispatcher) doubtful(e *store.Entry, device string) bool {
	if e.FirstAttemptAt == 0 {
		return false
	}
	return e.Device != device || time.Since(time.UnixMilli(e.FirstAttemptAt)) > repeatWithin
}

// errUnproven says that nobody can tell whether an event is in the room.
var errUnproven = errors.New("the room's history does not tell whether the message arrived")

// settle finds out whether an earlier attempt arrived. It returns the event's id, or "" if it certainly did not.
func (d *dispatcher) settle(room store.Room, e *store.Entry) (string, error) {
	since := time.UnixMilli(e.AcceptedAt).Add(-findMargin)
	found, err := d.sender.Find(d.ctx, room.RoomID, e.Txn, since)
	switch {
	case err != nil:
		return "", err
	case found.EventID != "":
		return found.EventID, nil
	case !found.Complete:
		return "", errUnproven
	}
	e.FirstAttemptAt, e.Device = 0, ""
	return "", nil
}

// settleBefore finds out whether an earlier attempt arrived in the room that was replaced
// since. Where the bot is not let look, nobody can tell.
func (d *dispatcher) settleBefore(old string, e *store.Entry) (string, error) {
	id, err := d.settle(store.Room{RoomID: old}, e)
	switch classOf(err).Class {
	case ClassPark, ClassJoin, ClassDead, ClassSettle:
		return "", errUnproven
	}
	return id, err
}

// fileThere tells whether an earlier attempt at a file arrived, if the homeserver would
// not recognise a repeat of it.
func (d *dispatcher) fileThere(q *queue, room store.Room, device string, e *store.Entry) (bool, error) {
	doubtful := d.doubtful(e, device) // as in sendEvent
	if old := q.replacedSince(e); old != "" {
		there, err := d.settleFile(store.Room{RoomID: old}, e)
		switch classOf(err).Class {
		case ClassPark, ClassJoin, ClassSettle: // the bot is not let look
			err = errFileUnproven
		}
		if there || err != nil {
			return there, err
		}
	}
	if doubtful {
		return d.settleFile(room, e)
	}
	return false, nil
}

var errFileUnproven = &SendError{Class: ClassDead, Reason: "it cannot be told whether the file is in the room already"}

// settleFile finds out whether the file of an earlier attempt arrived. One of which
// nobody can tell is not sent again.
func (d *dispatcher) settleFile(room store.Room, e *store.Entry) (there bool, err error) {
	found, err := d.sender.Find(d.ctx, room.RoomID, e.Txn+fileSuffix, time.UnixMilli(e.AcceptedAt).Add(-findMargin))
	switch {
	case err != nil:
		return false, err
	case found.EventID != "":
		return true, nil
	case !found.Complete:
		return false, errFileUnproven
	}
	e.FirstAttemptAt, e.Device = 0, ""
	return false, nil
}
