package account

import (
	"context"
	"fmt"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// Why an application may send to its room. The bot is in rooms of many people: without a right, any user could post into
// each of them by its id.
const (
	rightOwn    = "own"    // the bot made the room for it
	rightMember = "member" // its owner was in the room when it was set
	rightAdmin  = "admin"  // an administrator has set it
	// "" was set before a right was asked for: it still works, and is flagged when its owner is not in the room.
)

const joined = "join"

// rightTo decides why an application of owner may send to a room that v names. It returns the address to be stored: an
// alias of a user is resolved for good, so that nobody can lead it elsewhere later.
func (s *Accounts) rightTo(ctx context.Context, v Principal, owner int64, address string) (right, resolved string, err error) {
	if err := CheckAddress(address); err != nil {
		return "", "", err
	}
	switch {
	case address == "":
		return rightOwn, "", nil
	case v.Admin:
		return rightAdmin, address, nil
	}
	user, _ := s.cache.user(owner)
	if user.MatrixID == "" {
		return "", "", noRight("You have no Matrix ID here, so it cannot be checked whether you are in the room: ask an administrator to enter it, or to set the room.")
	}
	roomID, membership, err := s.o.Rooms.Membership(ctx, address, user.MatrixID)
	if err != nil {
		return "", "", err
	}
	if membership != joined {
		return "", "", noRight(fmt.Sprintf("You (%s) are not in the room %s: join it first, or ask an administrator to set it.", user.MatrixID, address))
	}
	return rightMember, roomID, nil
}

func noRight(message string) error {
	return &refusal.Error{Kind: refusal.KindForbidden, Field: "room_id", Message: message}
}

// MaySend refuses when an application has lost the right to send to its room.
func (a *App) MaySend() error {
	if row := a.Row(); row.RoomRight == rightMember && row.OwnerAbsent {
		return noRight("The application's owner is not in its room any more: join the room again, or give the application another one.")
	}
	return nil
}

// Presence takes note of whether somebody is in a room, for the applications that the person owns there. "" is who has no
// Matrix id.
func (s *Accounts) Presence(ctx context.Context, roomID, matrixID string, present bool) error {
	rooms, err := s.store.RoomsWithID(ctx, roomID)
	if err != nil || len(rooms) == 0 {
		return err
	}
	is := map[int64]bool{}
	for _, r := range rooms {
		is[r.ID] = true
	}
	s.edit.Lock()
	defer s.edit.Unlock()
	for _, a := range s.cache.all(func(a *store.Application) bool { return is[a.RoomID] && a.OwnerAbsent == present }) {
		row := *a.Row()
		if owner, _ := s.cache.user(row.OwnerID); owner.MatrixID != matrixID || matrixID == "" && row.RoomRight != rightMember {
			continue
		}
		row.OwnerAbsent = !present
		if err := s.update(ctx, func(tx *store.Tx) error { return tx.SetOwnerAbsent(row.ID, row.OwnerAbsent) }); err != nil {
			return err
		}
		s.cache.putApp(row)
	}
	return nil
}

// LookAtOwners asks for each application with a room of its owner's choice whether the owner is in the room. What cannot
// be told stays as it was.
func (s *Accounts) LookAtOwners(ctx context.Context) error {
	return s.lookAtOwners(ctx, func(a *store.Application) bool { return a.RoomRight != rightOwn })
}

func (s *Accounts) lookAtOwners(ctx context.Context, of func(*store.Application) bool) error {
	for _, a := range s.cache.all(of) {
		room, err := s.store.Room(ctx, a.Row().RoomID)
		if err != nil {
			return err
		}
		owner, _ := s.cache.user(a.Row().OwnerID)
		if owner.MatrixID == "" && a.Row().RoomRight == rightMember { // whose leaving nobody would see
			if err := s.Presence(ctx, room.RoomID, "", false); err != nil {
				return err
			}
		}
		if room.RoomID == "" || owner.MatrixID == "" {
			continue
		}
		_, membership, err := s.o.Rooms.Membership(ctx, room.RoomID, owner.MatrixID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case refusal.KindOf(err) == refusal.KindUnavailable: // the homeserver is away: it says nothing about the others either
			return err
		case err != nil:
			continue
		}
		if err := s.Presence(ctx, room.RoomID, owner.MatrixID, membership == joined); err != nil {
			return err
		}
	}
	return nil
}
