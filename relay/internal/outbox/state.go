package outbox

import "slices"

// State is where an entry stands on its way. SQL and JSON use its text.
type State string

// The states of an entry. Queued, RetryWait and Blocked are on their way; the others are final.
const (
	StateQueued    State = "queued"     // waits for its turn
	StateRetryWait State = "retry_wait" // an attempt failed, the next one has its time
	StateBlocked   State = "blocked"    // the room or the bot's account must be fixed first; the error names the fix
	StateSent      State = "sent"
	StateAmbiguous State = "ambiguous" // may have arrived or not; a person chooses: redeliver or cancel
	StateDead      State = "dead"      // given up; the error has the reason
	StateCancelled State = "cancelled"
	StateRedacted  State = "redacted" // was sent, then removed from the room

	// StateForgotten is only ever an answer to a repeated request: the message was final and was removed with the
	// history, so its outcome is no longer known.
	StateForgotten State = "forgotten"
)

// States lists the states that an entry can have, in the order above.
var States = []State{
	StateQueued, StateRetryWait, StateBlocked, StateSent, StateAmbiguous, StateDead, StateCancelled, StateRedacted,
}

// PendingStates lists the states for which [State.Pending] is true.
var PendingStates = States[:3]

// Pending reports whether a message in this state will still move by itself.
func (s State) Pending() bool { return slices.Contains(PendingStates, s) }

// Redeliverable reports whether a person may have a message in this state delivered again.
func (s State) Redeliverable() bool {
	return s == StateAmbiguous || s == StateDead || s == StateCancelled
}

// Cancellable reports whether a message in this state becomes cancelled when it is withdrawn. One that was sent is removed from its room.
func (s State) Cancellable() bool { return s.Pending() || s == StateAmbiguous || s == StateDead }

// InDoubt is the error of a message that was withdrawn after an attempt without an answer, until its room has been asked.
const InDoubt = "It was withdrawn after an attempt whose answer was lost: it may be in the room."
