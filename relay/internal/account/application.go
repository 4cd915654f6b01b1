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
	ID                  int64           `json:"id"`
	OwnerID             int64           `json:"owner_id"`
	OwnerName           string          `json:"owner"`
	OwnerMatrixID       string          `json:"-"`
	Name                string          `json:"name"`
	Room                string          `json:"room_id"`                // address as given: id or alias; "" while the bot hasn't made the room yet
	RoomID              string          `json:"resolved_room_id"`       // "" until it is resolved
	RoomProblem         string          `json:"room_problem,omitempty"` // why nothing is sent there, or why there is no room yet
	RoomName            string          `json:"room_name"`              // "" if it has none or is not known yet
	RoomNotifies        bool            `json:"room_notifies"`          // the bot may notify everybody there (@room), as found at RoomCheckedAt
	RoomCheckedAt       time.Time       `json:"room_checked_at,omitzero"`
	RoomByAdmin         bool            `json:"room_by_admin"` // an administrator has set the room, so the owner need not be there
	OwnerAbsent         bool            `json:"owner_absent"`  // the owner is known not to be in the room, or not to have the right to write there
	RoomLost            bool            `json:"-"`             // …and messages are refused for that: the owner has lost the right to the room
	Mention             string          `json:"mention"`       // whom priorities 1 and 2 mention: auto, room, owner, none, or Matrix IDs separated by spaces
	DefaultPriority     int             `json:"default_priority"`
	PriorityScale       post.Scale      `json:"priority_scale"`
	StrictCompatibility bool            `json:"strict_compatibility"`
	RateLimit           int             `json:"rate_limit"` // messages a minute; 0 means the configured default
	Lifecycle           post.Lifecycle  `json:"lifecycle"`
	GroupThreads        bool            `json:"group_threads"`  // the alerts of a group share a thread
	CriticalRetry       Duration        `json:"critical_retry"` // between reminders of critical alerts, which have priority 2 then; "" for none
	EscalateAfter       int             `json:"escalate_after"` // reminders that nobody has acknowledged; 0 for never
	EscalateTo          string          `json:"escalate_to"`    // …turn to these: Matrix IDs and rooms of the owner's applications, separated by spaces
	TemplateTitle       string          `json:"template_title"` // see [template.Set]
	TemplateText        string          `json:"template_text"`
	TemplatePriority    string          `json:"template_priority"`
	TemplateLink        string          `json:"template_link"`
	Digest              Duration        `json:"digest"`            // for so long messages are collected after one that is sent; "" means never
	RepositoryDigest    Duration        `json:"repository_digest"` // the same for a registry's messages about one repository; "" means as Digest
	QuietHours          string          `json:"quiet_hours"`       // in which priority 1 mentions nobody; "" for none
	TimeZone            string          `json:"time_zone"`         // of the quiet hours; "" is UTC
	QuietSummary        bool            `json:"quiet_summary"`     // after them a message lists those that mentioned nobody
	Heartbeat           Duration        `json:"heartbeat"`         // longest time between two heartbeats; "" means it needs none
	HeartbeatGrace      Duration        `json:"heartbeat_grace"`
	HeartbeatSince      time.Time       `json:"-"` // when the interval was set
	Description         string          `json:"description"`
	DefaultFormat       post.Format     `json:"default_format"`
	ShowSender          post.ShowSender `json:"show_sender"`
	HasSecret           bool            `json:"has_hook_secret"` // the secret itself is never shown
	ImageName           string          `json:"-"`               // of the picture, which [Accounts.NamedImage] returns; "" for none
	CreatedAt           time.Time       `json:"created_at"`
	TokenCreatedAt      time.Time       `json:"token_created_at"`
	OldTokenUntil       time.Time       `json:"old_token_until,omitzero"` // until then the previous token stays valid
	LastUsed            time.Time       `json:"last_used,omitzero"`
	Accepted            int64           `json:"accepted"`
	Sent                int64           `json:"sent"`
	Dead                int64           `json:"dead"`
}

// IssuedToken is an application with its new token. The token is shown once; only its hash is stored.
type IssuedToken struct {
	Application Application
	Token       string
}

// show returns an application as its viewers see it.
func show(r *store.Application, room store.Room, owner store.User) Application {
	app := Application{
		ID: r.ID, OwnerID: r.OwnerID, OwnerName: owner.Name, OwnerMatrixID: owner.MatrixID, Name: r.Name,
		RoomID: room.RoomID, RoomProblem: room.Blocked, RoomName: room.Name, RoomNotifies: room.Notifies, RoomCheckedAt: post.Time(room.CheckedAt),
		RoomByAdmin: r.RoomRight == rightAdmin, OwnerAbsent: r.OwnerAbsent, RoomLost: lost(r), Mention: r.Mention,
		DefaultPriority: r.DefaultPriority, PriorityScale: post.Scale(r.PriorityScale), StrictCompatibility: r.StrictCompatibility,
		RateLimit: r.RateLimit, Lifecycle: post.Lifecycle(r.Lifecycle), GroupThreads: r.GroupThreads, CriticalRetry: durationIn(r.CriticalRetry), EscalateAfter: r.EscalateAfter, EscalateTo: r.EscalateTo, TemplateTitle: r.TemplateTitle, TemplateText: r.TemplateText, TemplatePriority: r.TemplatePriority, TemplateLink: r.TemplateLink, Digest: durationIn(r.Digest), RepositoryDigest: durationIn(r.RepositoryDigest), QuietHours: r.QuietHours, TimeZone: r.TimeZone, QuietSummary: r.QuietSummary, Heartbeat: durationIn(r.Heartbeat), HeartbeatGrace: durationIn(r.HeartbeatGrace), HeartbeatSince: post.Time(r.HeartbeatSince), Description: r.Description, DefaultFormat: post.Format(r.DefaultFormat), ShowSender: post.ShowSender(r.ShowSender), HasSecret: len(r.Secret) > 0,
		CreatedAt: post.Time(r.CreatedAt), TokenCreatedAt: post.Time(r.TokenCreatedAt), OldTokenUntil: post.Time(r.OldTokenUntil),
		LastUsed: post.Time(r.LastUsed), Accepted: r.Accepted, Sent: r.Sent, Dead: r.Dead,
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
