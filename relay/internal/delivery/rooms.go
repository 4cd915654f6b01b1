package delivery

import (
	"context"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const lookAtRooms = 5 * time.Second

// JoinedRooms lists the rooms that the bot is in, for choosing one. It asks the homeserver.
func JoinedRooms(ctx context.Context, at Rooms) ([]matrix.RoomInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, lookAtRooms)
	defer cancel()
	rooms, err := at.JoinedRooms(ctx)
	if err != nil {
		return nil, away(err)
	}
	return rooms, nil
}

// away is the answer when the homeserver did not say what was asked.
func away(err error) error {
	return &refusal.Error{Kind: refusal.KindUnavailable, Message: classOf(err).Sentence(), RetryAfter: refusal.RetryAfter, Err: err}
}

// Handle does what an event of the homeserver asks for. It returns soon.
func (d *Delivery) Handle(e matrix.Event) {
	switch e := e.(type) {
	case matrix.Online:
		d.pause.Trust()
		d.pause.Look()
	case matrix.Synced:
		if d.synced.CompareAndSwap(false, true) {
			d.lookSoon()
		}
	case matrix.Offline:
		d.pause.Suspect(e.Reason)
	case matrix.Joined:
		d.joined(e.Room)
		d.lookAgain(e.Room)
	case matrix.Tombstone: // another successor may be the right one
		d.joined(e.Room)
		d.lookAgain(e.Room)
	case matrix.PowerLevels: // the bot may be allowed to write again
		d.joined(e.Room)
		d.lookAgain(e.Room)
	case matrix.Left:
		d.left(e.Room, e.Reason)
	case matrix.Encrypted:
		d.encrypted(e.Room)
	case matrix.Ready:
		d.canEncrypt()
	case matrix.DevicesChanged:
		readersChanged(d.all())
	case matrix.ReadersChanged:
		readersChanged(d.known(e.Room))
	case matrix.Replaced:
		d.replaced(e.Old, e.New)
	case matrix.Named:
		d.named(e.Room, e.Name)
	}
}

// joined unblocks what was blocked because the bot was not in the room, could not write there or could not follow a tombstone.
func (d *Delivery) joined(roomID string) {
	for _, q := range d.inRoom(roomID) {
		if r := q.Room(); r.Blocked != "" {
			d.unblock(q)
			q.retry()
		}
	}
}

// left blocks a room that the bot has left: its messages wait.
func (d *Delivery) left(roomID, reason string) {
	if reason == "" {
		reason = "The bot is not in the room any more: invite it again."
	}
	for _, q := range d.inRoom(roomID) {
		d.block(q, matrix.ClassBlock, reason)
		q.retryAfter(blockedFor)
	}
}

// encrypted records that a room is encrypted, which cannot be undone.
func (d *Delivery) encrypted(roomID string) {
	for _, q := range d.inRoom(roomID) {
		if q.Room().Encrypted {
			continue
		}
		q.setRoom(func(r *store.Room) { r.Encrypted = true })
		d.saveRoom(q)
	}
}

// canEncrypt tries again where the bot could not encrypt.
func (d *Delivery) canEncrypt() {
	for _, q := range d.all() {
		r := q.Room()
		if r.BlockedAs == string(matrix.ClassEncrypted) {
			d.unblock(q)
		}
		if r.Encrypted {
			q.retry()
		}
	}
}

// readersChanged retries rooms whose messages may have waited for a device that can read them.
func readersChanged(queues []*queue) {
	for _, q := range queues {
		if q.markStale() {
			q.retry()
		}
	}
}

// replaced moves applications and waiting messages to the room that took the place of another.
func (d *Delivery) replaced(oldID, newID string) {
	for _, q := range d.inRoom(oldID) {
		q.setRoom(func(r *store.Room) {
			r.Replaced, r.ReplacedAt = oldID, time.Now().UnixMilli()
			if r.Address == oldID {
				r.Address = newID
			}
			r.RoomID = newID // encrypted if the old one was: the homeserver can't undo that
			r.Blocked, r.BlockedAs, r.BlockedAt = "", "", 0
		})
		d.saveRoom(q)
		d.log.Info("a room was upgraded", zap.String("old", oldID), zap.String("new", newID))
		q.retry()
	}
}

// named keeps a room's name.
func (d *Delivery) named(roomID, name string) {
	for _, q := range d.inRoom(roomID) {
		if q.Room().Name != name {
			q.setRoom(func(r *store.Room) { r.Name = name })
			d.saveRoom(q)
		}
	}
}

// block notes why nothing is sent to a room.
func (d *Delivery) block(q *queue, class matrix.Class, reason string) {
	known := false
	q.setRoom(func(r *store.Room) {
		if r.Blocked == "" {
			r.BlockedAt = time.Now().UnixMilli()
		}
		known = r.Blocked == reason
		r.Blocked, r.BlockedAs = reason, string(class)
	})
	d.saveRoom(q)
	if !known {
		d.log.Warn("a room is blocked", append(d.roomFields(q), zap.String("reason", reason))...)
	}
}

// roomFields name a room in the log: by its id, the alias that it was named by, and an application that sends there.
func (d *Delivery) roomFields(q *queue) []zap.Field {
	r := q.Room()
	fields := []zap.Field{zap.String("room", r.RoomID)}
	if r.Address != r.RoomID && !r.ToMake() {
		fields = append(fields, zap.String("alias", r.Address))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), nameRoomIn)
	defer cancel()
	if user, err := d.store.RoomUser(ctx, r.ID); err == nil {
		fields = append(fields, zap.String("application", user.Name))
	}
	return fields
}

const nameRoomIn = time.Second

// unblock records that nothing is wrong with a room any more.
func (d *Delivery) unblock(q *queue) {
	q.setRoom(func(r *store.Room) { r.Blocked, r.BlockedAs, r.BlockedAt = "", "", 0 })
	d.saveRoom(q)
}

// saveRoom stores what is remembered of a room. If that fails the log says so, and it is stored with the next change.
func (d *Delivery) saveRoom(q *queue) {
	q.saving.Lock()
	defer q.saving.Unlock()
	if err := d.store.SaveRoom(context.WithoutCancel(d.ctx), q.Room()); err != nil {
		d.log.Error("cannot store a room's state", zap.Int64("room", q.id), zap.Error(err))
	}
}
