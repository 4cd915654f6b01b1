package store

import (
	"slices"
	"strings"

	"slipway/relay/internal/post"
)

// States in statements. They are part of the text, so that the database sees when a partial index fits.
const (
	isQueued    = `'` + string(post.StateQueued) + `'`
	isSent      = `'` + string(post.StateSent) + `'`
	isAmbiguous = `'` + string(post.StateAmbiguous) + `'`
	isDead      = `'` + string(post.StateDead) + `'`
)

var (
	inTrouble  = anyState(post.TroubledStates) // the condition of a partial index
	unreadable = anyState(without(post.State.Readable))

	// sendable selects the entries of o that are sent in their turn: all on their way but the delayed ones, which are queued with a time.
	sendable = pendingIf(post.State.Sendable, "o.") + ` AND (o.next_at = 0 OR o.state <> ` + isQueued + `)`
	counted  = pendingIf(post.State.Counted, "")
	expiring = pendingIf(post.State.Expiring, "")
)

// pendingIf returns the condition of the pending entries whose states have a property. Each of its columns follows prefix. It begins
// with the condition of the index outbox_pending, and is no more than that while all pending states have the property.
func pendingIf(has func(post.State) bool, prefix string) string {
	condition := prefix + `final_at = 0`
	others := without(func(s post.State) bool { return !s.Pending() || has(s) })
	if len(others) > 0 {
		condition += ` AND ` + prefix + `state NOT IN ` + anyState(others)
	}
	return condition
}

// without returns the states that don't have a property.
func without(has func(post.State) bool) []post.State {
	return slices.DeleteFunc(slices.Clone(post.States), has)
}

// anyState returns states as a list of SQL.
func anyState(states []post.State) string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = `'` + string(s) + `'`
	}
	return `(` + strings.Join(words, ", ") + `)`
}
