package intake

import (
	"encoding/json"
	"time"

	"slipway/relay/internal/message"
)

// Filter selects messages. Zero fields do not restrict.
type Filter struct {
	ApplicationID int64
	States        []message.State
	Text          string // in title or body, case-insensitive
	Since, Until  time.Time
	Before        int64 // only ids below: the Next of the page before
	Limit         int   // at most MaxPage; 0 means 50
}

// MaxPage is the largest page of a list.
const MaxPage = 200

// Page is a page of messages, newest first.
type Page struct {
	Messages []message.Message
	Next     int64 // Before of the next page, 0 at the end
}

// Request is a message as it came in.
type Request struct {
	Token          string
	Title          string
	Message        string
	ContentType    string // "" means the application's default format
	PlainProtocol  bool   // the sender's protocol means plain text unless ContentType says otherwise
	Priority       *int   // nil: the application's default
	Translated     *int   // Priority as the sender's protocol means it, from −2 to 2; nil if it has no scale of its own
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
	ContentType   string // "" means Markdown
	Priority      int    // effective
	AcceptedAt    time.Time
	State         message.State // StateQueued, or the present state when Replay
	EventID       string
	Replay        bool // the idempotency key was known: this is the first answer again
	Conflict      bool // the key was known for another message: nothing was stored
}
