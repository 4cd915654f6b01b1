package account

import (
	"context"
	"errors"
	"fmt"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// The reasons why an application may send to its room. The bot is in rooms of many people: without them any user could
// post into each room by its ID.
const (
	rightOwn    = "own"    // the bot made the room for it
	rightMember = "member" // its owner is in the room and may write there and notify everybody
	rightWriter = "writer" // its owner is in the room and may write there, but not notify everybody
	rightAdmin  = "admin"  // an administrator has set it
	// "" is the right of imported applications: they may send, and are flagged if their owner is not in the room.
)

// isOwners reports whether a right is the owner's own, which the owner can lose.
func isOwners(right string) bool { return right == rightMember || right == rightWriter }

func ownersRight(notify bool) string {
	if notify {
		return rightMember
	}
	return rightWriter
}

// Standing is how a user stands in a room.
type Standing struct {
	RoomID string
	Joined bool
	Write  bool // the user may send messages there
	Notify bool // the user may mention the whole room
}

// rightTo decides why an application of owner may send to a room that v names. It returns the address to be stored: an
// alias given by a user is resolved for good, so that it cannot point elsewhere later.
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
	standing, err := s.o.Rooms.Standing(ctx, address, user.MatrixID)
	if err != nil {
		return "", "", err
	}
	if !standing.Joined {
		return "", "", noRight(fmt.Sprintf("You (%s) are not in the room %s: join it first, or ask an administrator to set it.", user.MatrixID, address))
	}
	if !standing.Write {
		return "", "", noRight(fmt.Sprintf("You (%s) may not write in the room %s: ask its moderators, or ask an administrator to set it.", user.MatrixID, address))
	}
	return ownersRight(standing.Notify), standing.RoomID, nil
}

func noRight(message string) error {
	return &refusal.Error{Kind: refusal.KindForbidden, Field: "room_id", Message: message}
}

// lost reports whether an application has lost the right to its room. The store asks the same of its rows.
func lost(row *store.Application) bool { return isOwners(row.RoomRight) && row.OwnerAbsent }

// MaySend refuses when an application was deleted or has lost the right to send to its room.
func (a *App) MaySend() error {
	if a.Row().DeletedAt != 0 {
		return errToken
	}
	if lost(a.Row()) {
		return noRight("The application's owner is not in its room any more, or may not write there: join the room again, ask its moderators, or give the application another room.")
	}
	return nil
}

// MaySendTo refuses when an application may not send to a room now, such as that of a message which it has sent before.
func (s *Accounts) MaySendTo(ctx context.Context, application, room int64) error {
	may, err := s.store.MaySend(ctx, application, room)
	switch {
	case err != nil:
		return refusal.Unreadable(err)
	case !may:
		return refusal.Forbidden("The application may not send to the message's room any more: its owner has lost the right to it, or no application of the owner has this room.")
	}
	return nil
}

// presenceTries bounds how often Presence starts over because another relay edits accounts at the same time.
const presenceTries = 10

// Presence records whether a user is in a room, for the applications that the user owns there. An empty matrixID stands for the
// users without a Matrix ID.
func (s *Accounts) Presence(ctx context.Context, roomID, matrixID string, present bool) error {
	for n := 1; ; n++ {
		err := s.tryPresence(ctx, roomID, matrixID, present)
		if !errors.Is(err, store.ErrStale) || n == presenceTries {
			return err
		}
	}
}

func (s *Accounts) tryPresence(ctx context.Context, roomID, matrixID string, present bool) error {
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
		if owner, _ := s.cache.user(row.OwnerID); owner.MatrixID != matrixID || matrixID == "" && !isOwners(row.RoomRight) {
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

// setNotify records whether the owner of an application may notify the whole room.
func (s *Accounts) setNotify(ctx context.Context, id int64, notify bool) error {
	s.edit.Lock()
	defer s.edit.Unlock()
	a := s.cache.app(id)
	if a == nil || !isOwners(a.Row().RoomRight) || a.Row().RoomRight == ownersRight(notify) {
		return nil
	}
	row := *a.Row()
	row.RoomRight = ownersRight(notify)
	err := s.update(ctx, func(tx *store.Tx) error { return tx.SetRoomRight(id, row.RoomRight) })
	if err == nil {
		s.cache.putApp(row)
	}
	return err
}

// takeRooms makes the rooms of a user's applications that an administrator's right holds depend on the user's own right.
func (s *Accounts) takeRooms(ctx context.Context, owner int64) error {
	s.edit.Lock()
	defer s.edit.Unlock()
	for _, a := range s.cache.all(func(a *store.Application) bool { return a.OwnerID == owner && a.RoomRight == rightAdmin }) {
		row := *a.Row()
		row.RoomRight = rightWriter // until the homeserver says more
		if err := s.update(ctx, func(tx *store.Tx) error { return tx.SetRoomRight(row.ID, row.RoomRight) }); err != nil {
			return err
		}
		s.cache.putApp(row)
	}
	return nil
}

// CheckOwners asks the homeserver, for each application whose room the bot didn't create, whether the owner is in the
// room and what the owner may do there. Rooms that cannot be checked stay as they were.
func (s *Accounts) CheckOwners(ctx context.Context) error {
	return s.checkOwners(ctx, func(a *store.Application) bool { return a.RoomRight != rightOwn })
}

func (s *Accounts) checkOwners(ctx context.Context, of func(*store.Application) bool) error {
	for _, a := range s.cache.all(of) {
		room, err := s.store.Room(ctx, a.Row().RoomID)
		if err != nil {
			return err
		}
		owner, _ := s.cache.user(a.Row().OwnerID)
		if owner.MatrixID == "" && isOwners(a.Row().RoomRight) { // sync would never report that the owner left
			if err := s.Presence(ctx, room.RoomID, "", false); err != nil {
				return err
			}
		}
		if room.RoomID == "" || owner.MatrixID == "" {
			continue
		}
		standing, err := s.o.Rooms.Standing(ctx, room.RoomID, owner.MatrixID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case refusal.KindOf(err) == refusal.KindUnavailable: // the homeserver is away: it says nothing about the others either
			return err
		case err != nil:
			continue
		}
		if err := s.Presence(ctx, room.RoomID, owner.MatrixID, standing.Joined && standing.Write); err != nil {
			return err
		}
		if err := s.setNotify(ctx, a.Row().ID, standing.Notify); err != nil {
			return err
		}
	}
	return nil
}
