package post

import "strings"

// State is the delivery state of an entry. SQL and JSON use its text.
type State string

// The states. Queued, RetryWait and Blocked are pending; the others are final.
const (
	StateQueued    State = "queued"     // waits for its turn
	StateRetryWait State = "retry_wait" // an attempt failed, the next one has its time
	StateBlocked   State = "blocked"    // a person must fix the room first; the error names how. Not stored: the store takes it from the room
	StateSent      State = "sent"
	StateAmbiguous State = "ambiguous" // may have arrived or not; a person chooses: redeliver or withdraw
	StateDead      State = "dead"      // given up; the error has the reason
	StateCancelled State = "cancelled"
	StateRedacted  State = "redacted" // was sent, then removed from the room

	// StateForgotten only occurs in the answer to a repeated request: the message was final and was removed with the
	// history, so its outcome is no longer known.
	StateForgotten State = "forgotten"
)

// set is a set of states, or a union of sets.
type set int

const (
	isPending       set = 1 << iota // it isn't over: FinalAt is 0
	isInitial                       // a message may be stored in it at first
	isSendable                      // it is sent in its turn
	isExpiring                      // it becomes dead when it is older than delivery.maxage
	isAwaited                       // ?wait= waits for its outcome
	isBlockable                     // while its room is blocked, it is blocked instead
	isCounted                       // it counts for limits.waiting
	isReadable                      // readers, such as Gotify's apps, get it
	isTroubled                      // it needs a person's decision
	isDead                          // the relay gave up on it
	isWithdrawn                     // it was withdrawn and is not in its room
	isDelivered                     // it reached its room
	isEditable                      // it is in its room or pending
	isRedeliverable                 // it may be delivered again on request
	isCancellable                   // withdrawing it makes it cancelled; one that was sent is removed from its room

	// A message on its way. One that is pending without the first five waits for somebody to redeliver it.
	isMoving = isSendable | isExpiring | isAwaited | isBlockable | isCounted | isPending | isReadable | isEditable | isCancellable
)

// states describes each state of a message: the sets that it belongs to, and its explanation for people. Rules, SQL, filters, pages,
// refusals and help are made of it, so a state in none of the sets is neither sent nor shown.
var states = []struct {
	state State
	sets  set
	note  string
}{
	{StateQueued, isMoving | isInitial, "It is waiting to be sent."},
	{StateRetryWait, isMoving, "An attempt failed; the relay retries automatically."},
	{StateBlocked, isMoving, "It waits until the cause is fixed, and is then sent automatically."},
	{StateSent, isDelivered | isEditable | isReadable, "The homeserver (the Matrix server that the relay sends to) accepted it."},
	{
		StateAmbiguous, isTroubled | isReadable | isRedeliverable | isCancellable,
		"It was sent, but the answer was lost and the room's history does not show whether it arrived. Check the room, then redeliver or withdraw it.",
	},
	{StateDead, isTroubled | isReadable | isDead | isRedeliverable | isCancellable, "The relay has stopped trying. You can redeliver it."},
	{StateCancelled, isWithdrawn | isRedeliverable, "It was withdrawn before it was sent."},
	{StateRedacted, isWithdrawn | isDelivered, "It was sent and later removed from the room."},
}

// The states of the table, in its order.
var (
	States              = statesIn(0)
	PendingStates       = statesIn(isPending)
	TroubledStates      = statesIn(isTroubled)
	RedeliverableStates = statesIn(isRedeliverable)
	CancellableStates   = statesIn(isCancellable)
)

// statesIn returns the states that belong to all of the sets.
func statesIn(sets set) (all []State) {
	for _, row := range states {
		if row.sets&sets == sets {
			all = append(all, row.state)
		}
	}
	return all
}

func (s State) in(sets set) bool {
	for i := range states {
		if states[i].state == s {
			return states[i].sets&sets == sets
		}
	}
	return false
}

// Note explains the state and what comes next.
func (s State) Note() string {
	for _, row := range states {
		if row.state == s {
			return row.note
		}
	}
	return ""
}

// Pending reports whether a message in this state isn't over. The other states are final.
func (s State) Pending() bool { return s.in(isPending) }

// Initial reports whether a message may be stored in this state at first.
func (s State) Initial() bool { return s.in(isInitial) }

// Sendable reports whether a message in this state is sent in its turn.
func (s State) Sendable() bool { return s.in(isSendable) }

// Expiring reports whether a message in this state is given up when it is too old.
func (s State) Expiring() bool { return s.in(isExpiring) }

// Awaited reports whether a sender that waits for the outcome of a message waits on in this state.
func (s State) Awaited() bool { return s.in(isAwaited) }

// Blockable reports whether a message in this state is shown as blocked while its room is.
func (s State) Blockable() bool { return s.in(isBlockable) }

// Counted reports whether a message in this state counts for the limit of waiting messages.
func (s State) Counted() bool { return s.in(isCounted) }

// Readable reports whether readers get a message in this state.
func (s State) Readable() bool { return s.in(isReadable) }

// Troubled reports whether a message in this state needs a person's decision.
func (s State) Troubled() bool { return s.in(isTroubled) }

// Dead reports whether the relay gave up on a message in this state.
func (s State) Dead() bool { return s.in(isDead) }

// Withdrawn reports whether a message in this state was withdrawn and is not in its room.
func (s State) Withdrawn() bool { return s.in(isWithdrawn) }

// Delivered reports whether a message in this state reached its room. It may have been removed since.
func (s State) Delivered() bool { return s.in(isDelivered) }

// Editable reports whether a message in this state is in its room or pending.
func (s State) Editable() bool { return s.in(isEditable) }

// Redeliverable reports whether a message in this state may be delivered again on request.
func (s State) Redeliverable() bool { return s.in(isRedeliverable) }

// Cancellable reports whether a message in this state becomes cancelled when it is withdrawn. One that was sent is removed from its room.
func (s State) Cancellable() bool { return s.in(isCancellable) }

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

// InDoubt is the error of a message that was withdrawn after an attempt without an answer, until the room shows whether it arrived.
const InDoubt = "It was withdrawn after an attempt whose answer was lost: it may be in the room."
