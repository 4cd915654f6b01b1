package account

import (
	"context"
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
	user, err := s.store.User(ctx, owner)
	if err != nil {
		return "", "", unread(err, "user")
	}
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

// MaySend refuses when an application has lost the right to send to its room.
func (a *App) MaySend() error { return maySend(&a.Application) }

func maySend(row *store.Application) error {
	if lost(row) {
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

// Presence records whether a user is in a room, for the applications that the user owns there. An empty matrixID stands for the
// users without a Matrix ID.
func (s *Accounts) Presence(ctx context.Context, roomID, matrixID string, present bool) error {
	var rights []string
	if matrixID == "" {
		rights = []string{rightMember, rightWriter}
	}
	return s.store.SetOwnerAbsent(ctx, roomID, matrixID, !present, rights...)
}

// CheckOwners asks the homeserver, for each application whose room the bot didn't create, whether the owner is in the
// room and what the owner may do there. Rooms that cannot be checked stay as they were.
func (s *Accounts) CheckOwners(ctx context.Context) error {
	return s.checkOwners(ctx, 0, func(right string) bool { return right != rightOwn })
}

// checkOwners checks the applications of an owner, or of all at 0, with rights for which of is true.
func (s *Accounts) checkOwners(ctx context.Context, owner int64, of func(right string) bool) error {
	apps, err := s.store.Applications(ctx, owner, 0)
	for i := 0; i < len(apps) && err == nil; i++ {
		if of(apps[i].RoomRight) {
			err = s.checkRight(ctx, &apps[i])
		}
	}
	return err
}

// checkRight returns an error if the homeserver is away: it says nothing about other rooms either.
func (s *Accounts) checkRight(ctx context.Context, app *store.Application) error {
	owner, err := s.store.User(ctx, app.OwnerID)
	if store.IsMissing(err) { // deleted meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	room, err := s.store.Room(ctx, app.RoomID)
	if err != nil {
		return err
	}
	if owner.MatrixID == "" && isOwners(app.RoomRight) { // sync would never report that the owner left
		if err := s.Presence(ctx, room.RoomID, "", false); err != nil {
			return err
		}
	}
	if room.RoomID == "" || owner.MatrixID == "" {
		return nil
	}
	standing, err := s.o.Rooms.Standing(ctx, room.RoomID, owner.MatrixID)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case refusal.KindOf(err) == refusal.KindUnavailable:
		return err
	case err != nil:
		return nil //nolint:nilerr // this room cannot be checked
	}
	if err := s.Presence(ctx, room.RoomID, owner.MatrixID, standing.Joined && standing.Write); err != nil {
		return err
	}
	right := ownersRight(standing.Notify)
	if !isOwners(app.RoomRight) || app.RoomRight == right {
		return nil
	}
	return s.store.Update(ctx, func(tx *store.Tx) error { return tx.ReplaceRoomRight(app.OwnerID, app.ID, app.RoomRight, right) })
}
