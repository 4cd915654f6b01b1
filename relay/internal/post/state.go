package post

import (
	"slices"
	"strings"
)

// State is the delivery state of an entry. SQL and JSON use its text.
type State string

// The states. Queued, RetryWait and Blocked are on their way; the others are final.
const (
	StateQueued    State = "queued"     // waits for its turn
	StateRetryWait State = "retry_wait" // an attempt failed, the next one has its time
	StateBlocked   State = "blocked"    // a person must fix the room first; the error names how. Not stored: the store takes it from the room
	StateSent      State = "sent"
	StateAmbiguous State = "ambiguous" // may have arrived or not; a person chooses: redeliver or withdraw
	StateDead      State = "dead"      // given up; the error has the reason
	StateCancelled State = "cancelled"
	StateRedacted  State = "redacted" // was sent, then removed from the room

	// StateForgotten is only ever an answer to a repeated request: the message was final and was removed with the
	// history, so its outcome is no longer known.
	StateForgotten State = "forgotten"
)

// States lists the states that a message can have, in the order above.
var States = []State{
	StateQueued, StateRetryWait, StateBlocked, StateSent, StateAmbiguous, StateDead, StateCancelled, StateRedacted,
}

// Sets of states. Add a new state to each set that fits.
var (
	PendingStates       = []State{StateQueued, StateRetryWait, StateBlocked}
	TroubledStates      = []State{StateAmbiguous, StateDead}
	WithdrawnStates     = []State{StateCancelled, StateRedacted}
	RedeliverableStates = []State{StateAmbiguous, StateDead, StateCancelled}
	CancellableStates   = []State{StateQueued, StateRetryWait, StateBlocked, StateAmbiguous, StateDead}
)

// Pending reports whether a message in this state will still move by itself. The other states are final.
func (s State) Pending() bool { return slices.Contains(PendingStates, s) }

// Troubled reports whether a message in this state needs a person's decision.
func (s State) Troubled() bool { return slices.Contains(TroubledStates, s) }

// Withdrawn reports whether a message in this state was withdrawn and is not in its room.
func (s State) Withdrawn() bool { return slices.Contains(WithdrawnStates, s) }

// Delivered reports whether a message in this state was in its room, and perhaps still is.
func (s State) Delivered() bool { return s == StateSent || s == StateRedacted }

// Editable reports whether a message in this state is in its room, or on its way there.
func (s State) Editable() bool { return s.Pending() || s == StateSent }

// Redeliverable reports whether a person may have a message in this state delivered again.
func (s State) Redeliverable() bool { return slices.Contains(RedeliverableStates, s) }

// Cancellable reports whether a message in this state becomes cancelled when it is withdrawn. One that was sent is removed from its room.
func (s State) Cancellable() bool { return slices.Contains(CancellableStates, s) }

// OneOf returns the states as text, such as "queued, sent or dead".
func OneOf(states []State) string { return list(states, "or") }

// AllOf returns the states as text, such as "queued, sent and dead".
func AllOf(states []State) string { return list(states, "and") }

func list(states []State, word string) string {
	var text strings.Builder
	for i, s := range states {
		switch {
		case i > 0 && i == len(states)-1:
			text.WriteString(" " + word + " ")
		case i > 0:
			text.WriteString(", ")
		}
		text.WriteString(string(s))
	}
	return text.String()
}

// InDoubt is the error of a message that was withdrawn after an attempt without an answer, until its room has been asked.
const InDoubt = "It was withdrawn after an attempt whose answer was lost: it may be in the room."
