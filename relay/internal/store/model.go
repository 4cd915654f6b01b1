package store

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
	ID                  int64
	OwnerID             int64
	Name                string
	RoomID              int64  // rooms.id
	TokenHash           []byte // nil once deleted
	TokenCreatedAt      int64
	OldTokenHash        []byte
	OldTokenUntil       int64
	DefaultPriority     int
	PriorityScale       string
	StrictCompatibility bool
	RateLimit           int
	Description         string
	DefaultFormat       string
	ShowSender          string
	Mention             string
	Secret              []byte // encrypted; nil for none
	Lifecycle           string // see post.Lifecycle
	GroupThreads        bool   // the alerts of a group share a thread
	CriticalRetry       int64  // between reminders of critical alerts, in milliseconds; 0 for none
	EscalateAfter       int    // reminders
	EscalateTo          string // Matrix IDs and rooms, separated by spaces
	TemplateTitle       string // see template.Set
	TemplateText        string
	TemplatePriority    string
	TemplateLink        string
	Digest              int64  // milliseconds: how long messages are collected after one that is sent; 0 means never
	RepositoryDigest    int64  // the same for a registry's messages about one repository; 0 means as Digest
	QuietHours          string // see post.ParseQuietHours
	TimeZone            string
	QuietSummary        bool  // after the quiet hours a message lists those that mentioned nobody
	Heartbeat           int64 // longest time between two heartbeats, in milliseconds; 0 means it needs none
	HeartbeatGrace      int64 // milliseconds
	HeartbeatSince      int64 // when the interval was set
	RoomRight           string
	OwnerAbsent         bool
	HasImage            bool
	CreatedAt           int64 `gorm:"autoCreateTime:false"`
	DeletedAt           int64 // its messages are being removed
	LastUsed            int64
	Accepted            int64
	Sent                int64
	Dead                int64
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
