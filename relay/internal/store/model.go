package store

import "slipway/relay/internal/post"

// Times are Unix milliseconds in all tables; 0 means never.

// User is a row of users.
type User struct {
	ID           int64
	Name         string
	Folded       string // see [Fold]; [Tx.SaveUser] sets it
	PasswordHash string // "" for none
	MatrixID     string
	Subject      string // of the person at the identity provider, after the issuer and a space; "" for none
	IsAdmin      bool
	CreatedAt    int64 `gorm:"autoCreateTime:false"`
}

// Application is a row of applications.
type Application struct {
	ID      int64
	OwnerID int64
	Settings
	RoomID         int64  // rooms.id
	TokenHash      []byte // nil once deleted
	TokenCreatedAt int64
	OldTokenHash   []byte
	OldTokenUntil  int64
	Secret         []byte // encrypted; nil for none
	HeartbeatSince int64  // when the interval was set
	RoomRight      string
	OwnerAbsent    bool
	HasImage       bool
	CreatedAt      int64 `gorm:"autoCreateTime:false"`
	DeletedAt      int64 // its messages are being removed
	LastUsed       int64
	Accepted       int64
	Sent           int64
	Dead           int64
}

// Settings are what is chosen for an application: columns of its row, and fields of its JSON.
type Settings struct {
	Name                string          `json:"name"`
	Description         string          `json:"description"`
	Mention             string          `json:"mention"` // whom priorities 1 and 2 mention: auto, room, owner, none, or Matrix IDs separated by spaces
	DefaultPriority     int             `json:"default_priority"`
	PriorityScale       post.Scale      `json:"priority_scale"`
	DefaultFormat       post.Format     `json:"default_format"`
	ShowSender          post.ShowSender `json:"show_sender"`
	StrictCompatibility bool            `json:"strict_compatibility"` // the form of the token that is made next
	RateLimit           int             `json:"rate_limit"`           // messages a minute; 0 means the configured default
	Lifecycle           post.Lifecycle  `json:"lifecycle"`
	GroupThreads        bool            `json:"group_threads"`  // the alerts of a group share a thread
	CriticalRetry       Duration        `json:"critical_retry"` // between reminders of critical alerts, which have priority 2 then; 0 for none
	EscalateAfter       int             `json:"escalate_after"` // reminders that nobody has acknowledged; 0 for never
	EscalateTo          string          `json:"escalate_to"`    // …turn to these: Matrix IDs and rooms of the owner's applications, separated by spaces
	TemplateTitle       string          `json:"template_title"` // see package template
	TemplateText        string          `json:"template_text"`
	TemplatePriority    string          `json:"template_priority"`
	TemplateLink        string          `json:"template_link"`
	Digest              Duration        `json:"digest"`            // for so long messages are collected after one that is sent; 0 means never
	RepositoryDigest    Duration        `json:"repository_digest"` // the same for a registry's messages about one repository; 0 means as Digest
	QuietHours          string          `json:"quiet_hours"`       // in which priority 1 mentions nobody; "" for none; see [post.ParseQuietHours]
	TimeZone            string          `json:"time_zone"`         // of the quiet hours; "" is UTC
	QuietSummary        bool            `json:"quiet_summary"`     // after them a message lists those that mentioned nobody
	Heartbeat           Duration        `json:"heartbeat"`         // longest time between two heartbeats; 0 means it needs none
	HeartbeatGrace      Duration        `json:"heartbeat_grace"`
}

// Room is a row of rooms: a target of messages, named by the address that applications give.
type Room struct {
	ID         int64
	Address    string // room id or alias; "new:…" for a room that the bot is still to make
	RoomID     string // resolved
	Name       string
	Encrypted  bool
	Blocked    string // the reason, "" if it is not
	BlockedAs  string // class of the reason
	BlockedAt  int64
	Replaced   string // the id of the room that this one took the place of
	ReplacedAt int64
	CheckedAt  int64 // when the room was looked at last
	Notifies   bool  // the bot may notify everybody there
}

// Session is a row of sessions.
type Session struct {
	TokenHash []byte `gorm:"primaryKey"`
	UserID    int64
	CSRF      string `gorm:"column:csrf"`
	CreatedAt int64  `gorm:"autoCreateTime:false"`
	ExpiresAt int64
}

// Client is a row of clients: a program that reads a user's messages.
type Client struct {
	ID        int64
	UserID    int64
	Name      string
	TokenHash []byte
	CreatedAt int64 `gorm:"autoCreateTime:false"`
	LastUsed  int64
	IdleLimit int64 // milliseconds without use after which the client is deleted; 0: never
}

// Setting is a row of settings.
type Setting struct {
	Key   string `gorm:"primaryKey"`
	Value string
}

// Stat is a row of stats: what happened to an application's messages within an hour.
type Stat struct {
	Hour          int64 `gorm:"primaryKey"` // Unix hours
	ApplicationID int64 `gorm:"primaryKey"`
	Accepted      int64
	Sent          int64
	Dead          int64
}
