package account

import (
	"errors"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// Application is a sender of messages with its own token and target room.
type Application struct {
	ID            int64  `json:"id"`
	OwnerID       int64  `json:"owner_id"`
	OwnerName     string `json:"owner"`
	OwnerMatrixID string `json:"-"`
	store.Settings
	Room           string    `json:"room_id"`                // address as given: id or alias; "" while the bot hasn't made the room yet
	RoomID         string    `json:"resolved_room_id"`       // "" until it is resolved
	RoomProblem    string    `json:"room_problem,omitempty"` // why nothing is sent there, or why there is no room yet
	RoomName       string    `json:"room_name"`              // "" if it has none or is not known yet
	RoomNotifies   bool      `json:"room_notifies"`          // the bot may notify everybody there (@room), as found at RoomCheckedAt
	RoomCheckedAt  time.Time `json:"room_checked_at,omitzero"`
	RoomByAdmin    bool      `json:"room_by_admin"`   // an administrator has set the room, so the owner need not be there
	OwnerAbsent    bool      `json:"owner_absent"`    // the owner is known not to be in the room, or not to have the right to write there
	RoomLost       bool      `json:"-"`               // …and messages are refused for that: the owner has lost the right to the room
	HeartbeatSince time.Time `json:"-"`               // when the interval was set
	HasSecret      bool      `json:"has_hook_secret"` // the secret itself is never shown
	ImageName      string    `json:"-"`               // of the picture, which [Accounts.NamedImage] returns; "" for none
	CreatedAt      time.Time `json:"created_at"`
	TokenCreatedAt time.Time `json:"token_created_at"`
	OldTokenUntil  time.Time `json:"old_token_until,omitzero"` // until then the previous token stays valid
	LastUsed       time.Time `json:"last_used,omitzero"`
	Accepted       int64     `json:"accepted"`
	Sent           int64     `json:"sent"`
	Dead           int64     `json:"dead"`
}

// IssuedToken is an application with its new token. The token is shown once; only its hash is stored.
type IssuedToken struct {
	Application Application
	Token       string
}

// show returns an application as its viewers see it.
func show(r *store.Application, room store.Room, owner store.User) Application {
	app := Application{
		ID: r.ID, OwnerID: r.OwnerID, OwnerName: owner.Name, OwnerMatrixID: owner.MatrixID, Settings: r.Settings,
		RoomID: room.RoomID, RoomProblem: room.Blocked, RoomName: room.Name, RoomNotifies: room.Notifies, RoomCheckedAt: post.Time(room.CheckedAt),
		RoomByAdmin: r.RoomRight == rightAdmin, OwnerAbsent: r.OwnerAbsent, RoomLost: lost(r),
		HeartbeatSince: post.Time(r.HeartbeatSince), HasSecret: len(r.Secret) > 0, CreatedAt: post.Time(r.CreatedAt), TokenCreatedAt: post.Time(r.TokenCreatedAt),
		OldTokenUntil: post.Time(r.OldTokenUntil), LastUsed: post.Time(r.LastUsed), Accepted: r.Accepted, Sent: r.Sent, Dead: r.Dead,
	}
	if !room.ToMake() {
		app.Room = room.Address
	}
	if r.HasImage {
		app.ImageName = imageName(r)
	}
	return app
}

// setApplication checks the input and sets it, without the room.
func (s *Accounts) setApplication(v Principal, row *store.Application, in ApplicationInput) error {
	return errors.Join(setOwner(v, row, in.OwnerID), s.secrets.set(row, in.Secret), in.Apply(row))
}

// setOwner changes the owner of an application, who may not be there.
func setOwner(v Principal, row *store.Application, owner *int64) error {
	if owner == nil || *owner == row.OwnerID {
		return nil
	}
	if !v.Admin {
		return &refusal.Error{Kind: refusal.KindForbidden, Field: "owner_id", Message: "Only administrators may give an application to another user."}
	}
	row.OwnerID, row.RoomRight, row.OwnerAbsent = *owner, rightAdmin, false
	return nil
}

// Unheard reports whether messages of priority 2 alert nobody in the application's room: the bot may not notify the room
// there, and the owner, who would be mentioned, is not in it.
func (a Application) Unheard() bool {
	if a.RoomCheckedAt.IsZero() || a.RoomProblem != "" {
		return false
	}
	owner := a.OwnerMatrixID != "" && !a.OwnerAbsent
	switch a.Mention {
	case mentionAuto, "room":
		return !a.RoomNotifies && !owner
	case "owner":
		return !owner
	}
	return false // nobody is mentioned, or people named by their Matrix IDs
}
