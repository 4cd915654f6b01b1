package delivery

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// goodFor is how long the result of a look at a room is good for, while sync reports no change.
const goodFor = 7 * 24 * time.Hour

// LookUpRoom asks the homeserver for the bot's standing in a room, named by ID or alias, and stores the answer.
func (d *Delivery) LookUpRoom(ctx context.Context, address string) (matrix.RoomInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, lookAtRooms)
	defer cancel()
	id, err := d.o.Rooms.Resolve(ctx, address)
	if err != nil {
		return matrix.RoomInfo{}, away(err)
	}
	return d.look(ctx, id, true)
}

// look asks for a room. Unless somebody has asked for it, an invitation that stands is no problem yet: the bot is about to
// follow it.
func (d *Delivery) look(ctx context.Context, roomID string, asked bool) (matrix.RoomInfo, error) {
	began := time.Now()
	info, err := d.o.Rooms.Info(ctx, roomID)
	if err != nil {
		return matrix.RoomInfo{}, away(err)
	}
	if info.Encrypted {
		d.encrypted(roomID)
	}
	if info.Invited && !info.Joined && !asked {
		return info, nil
	}
	for _, q := range d.inRoom(roomID) {
		d.looked(q, info, began)
	}
	return info, nil
}

// looked keeps what a look at a room has found, and blocks or unblocks the room by it. What an attempt has found since
// the look began is newer.
func (d *Delivery) looked(q *queue, info matrix.RoomInfo, began time.Time) {
	q.setRoom(func(r *store.Room) {
		r.CheckedAt, r.Notifies = time.Now().UnixMilli(), info.Notifies
		if info.Joined {
			r.Name = info.Name
		}
	})
	reason, room := problem(info), q.Room()
	switch {
	case reason != "" && (info.ReplaceBy == "" || room.Blocked == ""): // else what was tried in the successor says more
		d.block(q, matrix.ClassBlock, reason)
	case reason == "" && room.Blocked != "" && room.BlockedAs != string(matrix.ClassEncrypted) && room.BlockedAt < began.UnixMilli():
		d.unblock(q)
		q.retry()
	default:
		d.saveRoom(q)
	}
}

// problem returns the reason why messages do not reach a room, "" if they do.
func problem(info matrix.RoomInfo) string {
	switch {
	case info.Invited && !info.Joined:
		return "The bot is invited but has not joined: the inviter is not an administrator, a known user or of a server in matrix.invites.servers."
	case !info.Joined:
		return matrix.NotInRoom
	case info.ReplaceBy != "":
		return "The room was replaced by " + info.ReplaceBy + ". Invite the bot there."
	case !info.Writable:
		return matrix.MayNotWrite
	}
	return ""
}

// lookAtRooms asks for the name of rooms of which little is known, and whether the bot may write there and notify
// everybody, one after the other.
func (d *Delivery) lookAtRooms(ctx context.Context) {
	for _, q := range d.all() {
		r := q.Room()
		if r.RoomID == "" || time.Since(post.Time(r.CheckedAt)) < goodFor {
			continue
		}
		if d.isStopping() || ctx.Err() != nil || d.pause.Closed() {
			return
		}
		ask, cancel := context.WithTimeout(ctx, lookAtRooms)
		if _, err := d.look(ask, r.RoomID, false); err != nil {
			d.log.Debug("cannot look at a room", zap.String("room", r.RoomID), zap.Error(err))
		}
		cancel()
	}
}

// lookAgain checks a room of ours in which something has changed.
func (d *Delivery) lookAgain(roomID string) {
	ours := d.inRoom(roomID)
	for _, q := range ours {
		q.setRoom(func(r *store.Room) { r.CheckedAt = 0 })
	}
	if len(ours) > 0 {
		d.lookSoon()
	}
}

func (d *Delivery) lookSoon() {
	select {
	case d.stale <- struct{}{}:
	default:
	}
}

// lookWhenStale checks rooms in which something has changed, until the end. Before the first answer of sync it is not
// known which invitations stand.
func (d *Delivery) lookWhenStale() {
	for {
		select {
		case <-d.stopping:
			return
		case <-d.stale:
			if d.synced.Load() {
				d.lookAtRooms(d.ctx)
			}
		}
	}
}

// Standing is how a user stands in a room.
type Standing struct {
	RoomID string
	matrix.Standing
}

// StandingOf asks the homeserver how a user stands in a room, named by id or alias.
func StandingOf(ctx context.Context, at Rooms, address, user string) (s Standing, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookAtRooms)
	defer cancel()
	if s.RoomID, err = at.Resolve(ctx, address); err != nil {
		return Standing{}, notSeen(err)
	}
	if s.Standing, err = at.Standing(ctx, s.RoomID, user); err != nil {
		return Standing{}, notSeen(err)
	}
	return s, nil
}

func notSeen(err error) error {
	switch f := classOf(err); f.Class {
	case matrix.ClassJoin:
		return &refusal.Error{Kind: refusal.KindForbidden, Field: "room_id", Message: "The bot is not in the room, so it cannot see who is: invite it first.", Err: err}
	case matrix.ClassBlock, matrix.ClassDead:
		return &refusal.Error{Kind: refusal.KindInvalid, Field: "room_id", Message: fmt.Sprintf("Room lookup failed: %s.", strings.TrimSuffix(f.Sentence(), ".")), Err: err}
	}
	return away(err)
}
