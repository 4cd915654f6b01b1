// Package message holds what is shown of a message, and its priorities.
package message

import (
	"encoding/json"
	"time"

	"slipway/relay/internal/outbox"
)

// Message is an accepted message with its outcome.
type Message struct {
	ID              int64
	ApplicationID   int64
	ApplicationName string
	OwnerID         int64 // of the application
	Title           string
	Body            string
	ContentType     string // "" means Markdown
	Extras          json.RawMessage
	Attachments     []outbox.Attachment
	Priority        int    // effective, −2 … 2
	GotifyScale     int    // as it was sent on Gotify's scale, plus one; 0 if it came on another scale
	Source          string // how it came in: "api", "web", "gotify" …
	Room            string // address: id or alias
	RoomID          string // resolved, "" if not yet
	RoomRow         int64  // the room in the database
	AcceptedAt      time.Time

	State       outbox.State
	Attempts    int
	NextAttempt time.Time // zero unless waiting for its time
	Error       string    // why the last attempt failed or what blocks it; a sentence
	ErrorCode   string    // Matrix errcode or a word of ours
	EventID     string
	SentAt      time.Time
	Target      int64     // the message that this one edits or replies to; 0 for none
	Note        string    // a line of the relay's own above the body
	Key         string    // names what it is about; "" for nothing
	QueuedAt    time.Time // accepted, delivered again or, if it was delayed, due
	Removing    bool      // the removal of its event from the room waits
}

// The ends of the native priority scale.
const (
	MinPriority = -2
	MaxPriority = 2
)
