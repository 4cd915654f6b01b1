package post

import "time"

// Fact is something that has happened to an entry.
type Fact interface{ fact() }

// Facts found by an attempt.
type (
	// Sent means that the entry's event is in the room, or that the event to remove no longer is.
	Sent struct {
		EventID string
		Rest    []Entry // the entries that send what the event doesn't hold; none if it holds everything
		Said    int64   // RevisedAt of the content that was sent
	}
	// Absent means that a redaction's event was never sent.
	Absent struct{}
	// Unanswered means that an attempt failed and may have reached the homeserver.
	Unanswered struct {
		Reason, Code string
		Began        int64 // when it may have reached the homeserver; 0 if it can't have
		Device       string
		Wait         time.Duration
		Interrupted  bool // because the relay stops: it doesn't count as an attempt
	}
	// NotSent means that the homeserver didn't take the event and may later; it was certainly not sent, so the attempt doesn't count.
	NotSent struct {
		Reason, Code string
		Wait         time.Duration
	}
	// TooLarge means that the homeserver refused the event for its size.
	TooLarge struct{ Reason, Code string }
	// Refused means that the homeserver will never take the event.
	Refused struct{ Reason, Code string }
	// Unproven means that an earlier attempt may or may not have arrived and the history doesn't show which.
	Unproven struct{}
)

// Facts that need no attempt.
type (
	// Expired means that the entry has waited too long.
	Expired struct{ Reason string }
	// Orphaned means that the entry's application was deleted.
	Orphaned struct{}
	// Barred means that the entry's application may not send to its room any more.
	Barred struct{}
	// Needless means that nobody needs a reminder any more.
	Needless struct{}
	// Due means that the time of a delayed entry may have come.
	Due struct{}
	// Withdrawn means that somebody withdrew a message. FollowUps are all entries that have it as their target.
	Withdrawn struct{ FollowUps []Entry }
	// Redelivered means that somebody wants a message delivered after all. Txn is its transaction ID if it is sent again.
	Redelivered struct {
		Txn       string
		FollowUps []Entry
	}
)

// Facts that a follow-up tells its target.
type (
	// Removed means that a redaction removed an event.
	Removed struct{ EventID string }
	// NeverArrived means that the room doesn't hold an event of a withdrawn message.
	NeverArrived struct{}
	// FollowUpFailed means that a follow-up was given up.
	FollowUpFailed struct{ Reason string }
)

func (Sent) fact()           {}
func (Absent) fact()         {}
func (Unanswered) fact()     {}
func (NotSent) fact()        {}
func (TooLarge) fact()       {}
func (Refused) fact()        {}
func (Unproven) fact()       {}
func (Expired) fact()        {}
func (Orphaned) fact()       {}
func (Barred) fact()         {}
func (Needless) fact()       {}
func (Due) fact()            {}
func (Withdrawn) fact()      {}
func (Redelivered) fact()    {}
func (Removed) fact()        {}
func (NeverArrived) fact()   {}
func (FollowUpFailed) fact() {}

// Effect is a side effect that the caller of [Step] must carry out.
type Effect interface{ effect() }

type (
	// Count asks for the message to be counted under its state.
	Count struct{}
	// Tell asks for a fact to be applied to the entry's target.
	Tell struct{ Fact Fact }
	// Retry asks for the next attempt after a while.
	Retry struct{ Wait time.Duration }
)

func (Count) effect() {}
func (Tell) effect()  {}
func (Retry) effect() {}
