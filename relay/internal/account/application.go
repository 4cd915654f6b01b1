package account

import "time"

// Application is a sender of messages with its own token and target room.
type Application struct {
	ID                  int64
	OwnerID             int64
	OwnerName           string
	OwnerMatrixID       string
	Name                string
	Room                string    // address as given: id or alias; "" while the room of the bot's making is not there yet
	RoomID              string    // resolved
	RoomProblem         string    // why nothing is sent there, or why there is no room yet; "" if nothing is wrong
	RoomName            string    // "" if it has none or is not known yet
	RoomNotifies        bool      // the bot may notify everybody there (@room), as found at RoomCheckedAt
	RoomCheckedAt       time.Time // when the room was looked at last; zero if never
	RoomByAdmin         bool      // an administrator has set the room, so the owner need not be there
	OwnerAbsent         bool      // the owner is known not to be in the room
	RoomLost            bool      // …and messages are refused for that: the owner has lost the right to the room
	Mention             string    // whom priorities 1 and 2 mention: auto, room, owner, none, or Matrix ids with spaces between
	DefaultPriority     int
	PriorityScale       Scale
	StrictCompatibility bool
	RateLimit           int // messages a minute, 0: the configured default
	Description         string
	DefaultFormat       Format
	ShowSender          ShowSender
	HasImage            bool
	CreatedAt           time.Time
	TokenCreatedAt      time.Time
	OldTokenUntil       time.Time // the token before is valid until then; zero if it is not
	LastUsed            time.Time // zero if never
	Accepted            int64
	Sent                int64
	Dead                int64
}

// ApplicationInput holds what may be set on an application; nil fields keep their value, or take the default on
// creation.
type ApplicationInput struct {
	Name                *string
	Room                *string // nil or "" on creation: the bot makes a room and invites the owner
	OwnerID             *int64  // administrators only
	DefaultPriority     *int
	PriorityScale       *Scale
	StrictCompatibility *bool // the form of the token that is made next
	RateLimit           *int
	Description         *string
	DefaultFormat       *Format
	ShowSender          *ShowSender
	Mention             *string // see [Application]
}

// Format is how an application's messages are read when they do not say so themselves.
type Format string

// The formats.
const (
	FormatAuto     Format = "auto" // plain where the sender's protocol means plain text, else Markdown
	FormatMarkdown Format = "markdown"
	FormatPlain    Format = "plain"
	FormatHTML     Format = "html"
)

// ShowSender says whether an application's name precedes the titles of its messages.
type ShowSender string

// The choices.
const (
	ShowAuto   ShowSender = "auto" // where other applications send to the same room
	ShowAlways ShowSender = "always"
	ShowNever  ShowSender = "never"
)

// IssuedToken is an application with the token that was just made for it. The token is shown once; only its hash
// is kept.
type IssuedToken struct {
	Application Application
	Token       string
}

// Scale says how an application's senders mean their priorities.
type Scale string

// The priority scales.
const (
	ScaleAuto   Scale = "auto"   // native where the token came in the body or on a native route, else Gotify's
	ScaleNative Scale = "native" // −2 … 2
	ScaleGotify Scale = "gotify" // 0 … 10
)
