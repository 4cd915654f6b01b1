package delivery

import (
	"context"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/store"
)

// Follower stands in for a [Delivery] while another relay delivers. It queries the homeserver and the database and changes
// no room: the delivering relay owns them.
type Follower struct {
	Store  *store.Store
	Rooms  Rooms
	Paused func() string // why the delivering relay sends nothing at all, "" if nothing is wrong
}

const lookForRoom = 50 * time.Millisecond

// LookUpRoom asks the homeserver for the bot's standing in a room, named by ID or alias, and makes the delivering relay
// try again there.
func (f *Follower) LookUpRoom(ctx context.Context, address string) (matrix.RoomInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, lookAtRooms)
	defer cancel()
	id, err := f.Rooms.Resolve(ctx, address)
	if err != nil {
		return matrix.RoomInfo{}, away(err)
	}
	info, err := f.Rooms.Info(ctx, id)
	if err != nil {
		return matrix.RoomInfo{}, away(err)
	}
	if problem(info) != "" {
		return info, nil
	}
	rooms, err := f.Store.RoomsWithID(ctx, id)
	for _, r := range rooms {
		if r.Blocked != "" {
			f.Store.Retry(r.ID)
		}
	}
	return info, err
}

// Make waits up to five seconds for the delivering relay to create or resolve a room.
func (f *Follower) Make(ctx context.Context, room int64) {
	ctx, cancel := context.WithTimeout(ctx, makeRoomIn)
	defer cancel()
	for f.Paused() == "" {
		if r, err := f.Store.Room(ctx, room); err != nil || r.RoomID != "" {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookForRoom):
		}
	}
}
