// Package message holds the nouns of a message's way: the message, its states and its priorities.
package message

import (
	"encoding/json"
	"time"
)

// State is where a message stands on its way.
type State string

// The states of a message. Queued, RetryWait and Blocked are on their way; the others are final.
const (
	StateQueued    State = "queued"     // waits for its turn
	StateRetryWait State = "retry_wait" // an attempt failed, the next one has its time
	StateBlocked   State = "blocked"    // the room or the bot's account must be mended first; Message.Error says how
	StateSent      State = "sent"
	StateAmbiguous State = "ambiguous" // may have arrived or not; a person chooses: redeliver or cancel
	StateDead      State = "dead"      // given up; Message.Error says why
	StateCancelled State = "cancelled"
	StateRedacted  State = "redacted" // was sent, then removed from the room

	// StateForgotten is only ever an answer to a repeated request: the message was final and was removed with the
	// history, so what became of it is not known any more.
	StateForgotten State = "forgotten"
)

// States lists the states that a message can have, in the order above.
var States = []State{
	StateQueued, StateRetryWait, StateBlocked, StateSent, StateAmbiguous, StateDead, StateCancelled, StateRedacted,
}

// Pending reports whether a message in this state will still move by itself.
func (s State) Pending() bool { return s == StateQueued || s == StateRetryWait || s == StateBlocked }

// InDoubt is the error of a message that was withdrawn after an attempt without an answer, until its room has been asked.
const InDoubt = "It was withdrawn after an attempt whose answer was lost: it may be in the room."

// Message is an accepted message with what became of it.
type Message struct {
	ID              int64
	ApplicationID   int64
	ApplicationName string
	OwnerID         int64 // of the application
	Title           string
	Body            string
	ContentType     string // "" means Markdown
	Extras          json.RawMessage
	Priority        int    // effective, −2 … 2
	Source          string // how it came in: "api", "web", "gotify" …
	Room            string // address: id or alias
	RoomID          string // resolved, "" if not yet
	RoomRow         int64  // the room in the database
	AcceptedAt      time.Time

	State       State
	Attempts    int
	NextAttempt time.Time // zero unless waiting for its time
	Error       string    // why the last attempt failed or what blocks it; a sentence
	ErrorCode   string    // Matrix errcode or a word of ours
	EventID     string
	SentAt      time.Time
	Removing    bool // the removal of its event from the room waits
}

// The ends of the native priority scale.
const (
	MinPriority = -2
	MaxPriority = 2
)
