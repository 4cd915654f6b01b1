package relay

import (
	"encoding/json"
	"time"
)

// State is where a message stands on its way.
type State string

// The states of a message. Queued, RetryWait and Blocked are on their way; the others are at rest.
const (
	StateQueued    State = "queued"     // waits for its turn
	StateRetryWait State = "retry_wait" // an attempt failed, the next one has its time
	StateBlocked   State = "blocked"    // the room or the bot's account must be mended first; Message.Error says how
	StateSent      State = "sent"
	StateAmbiguous State = "ambiguous" // may have arrived or not; a person chooses: redeliver or cancel
	StateDead      State = "dead"      // given up; Message.Error says why
	StateCancelled State = "cancelled"
	StateRedacted  State = "redacted" // was sent, then removed from the room

	// StateForgotten is only ever an answer to a repeated request: the message is at rest and was removed with the
	// history, so what became of it is not known any more.
	StateForgotten State = "forgotten"
)

// States lists the states that a message can have, in the order above.
var States = []State{
	StateQueued, StateRetryWait, StateBlocked, StateSent, StateAmbiguous, StateDead, StateCancelled, StateRedacted,
}

// Pending tells whether a message in this state will still move by itself.
func (s State) Pending() bool { return s == StateQueued || s == StateRetryWait || s == StateBlocked }

// Message is an accepted message with what became of it.
type Message struct {
	ID              int64
	ApplicationID   int64
	ApplicationName string
	Title           string
	Body            string
	ContentType     string // "" means Markdown
	Extras          json.RawMessage
	Priority        int    // effective, −2 … 2
	Source          string // how it came in: "api", "web", "gotify" …
	Room            string // address: id or alias
	RoomID          string // resolved, "" if not yet
	AcceptedAt      time.Time

	State       State
	Attempts    int
	NextAttempt time.Time // zero unless waiting for its time
	Error       string    // why the last attempt failed or what blocks it; a sentence
	ErrorCode   string    // Matrix errcode or a word of ours
	EventID     string
	SentAt      time.Time
}

// MessageFilter selects messages. Zero fields do not restrict.
type MessageFilter struct {
	ApplicationID int64
	States        []State
	Text          string // in title or body, case-insensitive
	Since, Until  time.Time
	Before        int64 // only ids below: the Next of the page before
	Limit         int   // at most MaxPage; 0 means 50
}

// MaxPage is the largest page of a list.
const MaxPage = 200

// MessagePage is a page of messages, newest first.
type MessagePage struct {
	Messages []Message
	Next     int64 // Before of the next page, 0 at the end
}

// Scale says how an application's senders mean their priorities.
type Scale string

// The priority scales.
const (
	ScaleAuto   Scale = "auto"   // native where the token came in the body or on a native route, else Gotify's
	ScaleNative Scale = "native" // −2 … 2
	ScaleGotify Scale = "gotify" // 0 … 10
)

// The ends of the native priority scale.
const (
	MinPriority = -2
	MaxPriority = 2
)

// AcceptRequest is a message as it came in.
type AcceptRequest struct {
	Token          string
	Title          string
	Message        string
	ContentType    string // "" means the application's default format
	PlainProtocol  bool   // the sender's protocol means plain text unless ContentType says otherwise
	Priority       *int   // nil: the application's default
	NativeScale    bool   // the route or the place of the token says that Priority is −2 … 2
	Extras         json.RawMessage
	IdempotencyKey string
	Source         string
}

// Accepted is a message that is durably in the outbox.
type Accepted struct {
	ID            int64
	ApplicationID int64
	Title         string // as stored: the application's name stands in for an empty one only when rendering
	Message       string
	Priority      int // effective
	AcceptedAt    time.Time
	State         State // StateQueued, or the present state when Replay
	EventID       string
	Replay        bool // the idempotency key was known: this is the first answer again
}
