// Package post defines the types of the relay and its decisions about messages: the effect of a fact on an entry of the outbox ([Step]),
// the effect of a report on an alert ([TakeReport]), the messages that a digest collects ([Collect]), and quiet hours. It is pure: it uses
// no database, no network and no clock.
package post

import "time"

// Step applies fact f to an entry at time at, in Unix milliseconds. It returns the entry, the entries that are new (ID 0)
// or changed besides it, and the effects. Only Step decides what a fact means; a fact that doesn't apply returns the entry
// unchanged. A fact may arrive late, when the entry became final during an attempt.
func Step(e Entry, f Fact, at int64) (Entry, []Entry, []Effect) {
	s := step{Entry: e, at: at}
	switch {
	case s.told(f):
	case s.asked(f):
	case e.State.Pending():
		s.attempted(f)
	default:
		s.late(f)
	}
	return s.Entry, s.others, s.effects
}

// step is a step under way.
type step struct {
	Entry
	at      int64
	others  []Entry
	effects []Effect
}

func (s *step) effect(e Effect) { s.effects = append(s.effects, e) }

// told applies a fact that comes from a follow-up. A message that was queued again meanwhile isn't concerned.
func (s *step) told(f Fact) bool {
	final := !s.State.Pending()
	switch f := f.(type) {
	case Removed:
		if final && (s.EventID == f.EventID || s.EventID == "") {
			s.State, s.EventID, s.Error, s.Code = StateRedacted, f.EventID, "", ""
		}
	case NeverArrived:
		if s.State == StateCancelled {
			s.Error = ""
		}
	case FollowUpFailed:
		if final && s.State != StateDead && s.State != StateAmbiguous { // these have a reason of their own
			s.Error = f.Reason
		}
	default:
		return false
	}
	return true
}

// asked applies a person's decision.
func (s *step) asked(f Fact) bool {
	switch f := f.(type) {
	case Withdrawn:
		s.withdraw(f.FollowUps)
	case Redelivered:
		s.redeliver(f)
	default:
		return false
	}
	return true
}

// attempted applies a fact to an entry on its way.
func (s *step) attempted(f Fact) {
	switch f := f.(type) {
	case Sent:
		s.sent(f)
	case Absent:
		s.Attempts++
		s.Error, s.Code = "", ""
		s.effect(Tell{NeverArrived{}})
		s.end(StateCancelled)
	case Unanswered:
		s.unanswered(f)
	case NotSent:
		s.again(f.Reason, f.Code, f.Wait)
	case TooLarge:
		s.shrink(f)
	case Refused:
		s.Attempts++
		s.giveUp(StateDead, f.Reason, f.Code)
	case Unproven:
		s.unproven()
	case Expired:
		if s.State.Expiring() {
			s.expire(f)
		}
	case Orphaned:
		s.giveUp(StateCancelled, "The application was deleted.", "")
	case Barred:
		s.giveUp(StateDead, "The application may not send to this room any more.", "")
	case Needless:
		s.Error, s.Code = "", needless
		s.end(StateCancelled)
	case Due:
		if s.State == StateQueued && s.NextAt <= s.at {
			s.NextAt = 0
		}
	}
}

func (s *step) sent(f Sent) {
	s.Attempts++
	s.Error, s.Code, s.EventID = "", "", f.EventID
	if s.Kind == KindRedaction {
		s.effect(Tell{Removed{f.EventID}})
	}
	s.others = append(s.others, f.Rest...)
	s.catchUp(f)
	s.end(StateSent)
}

// catchUp adds an edit if the event may hold content from before a revision, because an attempt was in flight at the time.
func (s *step) catchUp(f Sent) {
	if s.RevisedAt == 0 || f.Said == s.RevisedAt && (s.FirstAttemptAt == 0 || s.FirstAttemptAt > s.RevisedAt) {
		return
	}
	c := s.Content
	c.Attachments = withoutSent(c.Attachments, f.Rest)
	s.others = append(s.others, s.EditTo(c, s.at))
}

func (s *step) unanswered(f Unanswered) {
	if !f.Interrupted {
		s.Attempts++
	}
	if s.FirstAttemptAt == 0 {
		s.FirstAttemptAt = f.Began
	}
	if f.Device != "" {
		s.Device = f.Device
	}
	s.again(f.Reason, f.Code, f.Wait)
}

// again leaves an entry for another attempt. Once a copy may have arrived the bytes stay the same.
func (s *step) again(reason, code string, wait time.Duration) {
	if s.FirstAttemptAt == 0 {
		s.Wire = nil
	}
	s.Error, s.Code = reason, code
	s.State, s.NextAt = StateRetryWait, s.at+wait.Milliseconds()
	s.effect(Retry{wait})
}

// shrink makes a message smaller, until nothing of it is left but a file.
func (s *step) shrink(f TooLarge) {
	if s.Kind != KindMessage || s.Shrunk == SizeNotice {
		s.Attempts++
		s.giveUp(StateDead, f.Reason, f.Code)
		return
	}
	s.Shrunk, s.FirstAttemptAt = s.Shrunk+1, 0
	s.State, s.NextAt, s.Wire, s.Error, s.Code = StateQueued, 0, nil, f.Reason, f.Code
}

func (s *step) unproven() {
	if s.Kind == KindRedaction { // its message says so already
		s.end(StateAmbiguous)
		return
	}
	s.giveUp(StateAmbiguous, "Whether the message arrived is unknown: look into the room, then redeliver or withdraw it.", "")
}

// expire gives up an entry without trying anything else for it.
func (s *step) expire(f Expired) {
	s.Error = f.Reason
	s.tellFailure(f.Reason)
	s.end(StateDead)
}

// giveUp ends an entry without success.
func (s *step) giveUp(state State, reason, code string) {
	s.Error, s.Code = reason, code
	s.tellFailure(reason)
	s.end(state)
}

// tellFailure reports a follow-up's failure to its target.
func (s *step) tellFailure(reason string) {
	switch {
	case s.Kind == KindMedia:
		s.effect(Tell{FollowUpFailed{"The attachment " + s.Title + " could not be sent: " + reason}})
	case s.Kind == KindFile:
		s.effect(Tell{FollowUpFailed{"The file with the whole text could not be sent: " + reason}})
	case s.Kind == KindReply:
		s.effect(Tell{FollowUpFailed{"A reply in its thread could not be sent: " + reason}})
	case s.Kind == KindEdit:
		s.effect(Tell{FollowUpFailed{"The message could not be edited: " + reason}})
	case s.Kind == KindRedaction && s.EventID != "":
		s.effect(Tell{FollowUpFailed{"The event could not be removed from the room: " + reason}})
	}
}

// end makes the entry final. One that may have arrived and isn't known to have keeps its bytes.
func (s *step) end(state State) {
	s.State, s.NextAt, s.FinalAt = state, 0, s.at
	if state == StateSent || s.FirstAttemptAt == 0 {
		s.Wire = nil
	}
	if s.Kind == KindMessage && (state.Delivered() || state.Dead()) {
		s.effect(Count{})
	}
}

// needless is the code of reminders that nobody needs any more. One that is in the room nevertheless is kept: the removal of an
// event withdraws the message.
const needless = "needless"

// late applies the result of an attempt to an entry that became final meanwhile: an event in the room counts as sent, and
// is removed again if the message was withdrawn.
func (s *step) late(f Fact) {
	cancelled := s.State == StateCancelled && s.Code != needless
	switch f := f.(type) {
	case Sent:
		switch {
		case s.State == StateSent && s.EventID == f.EventID: // stored already: the answer to the commit was lost
			return
		case s.Kind == KindRedaction:
			s.effect(Tell{Removed{f.EventID}})
			return
		}
		s.State, s.EventID, s.Error, s.Code = StateSent, f.EventID, "", ""
		if s.Kind == KindMessage {
			s.effect(Count{})
		}
		if cancelled {
			s.remove(s.Entry)
		} else { // given up in its turn, and the message says so
			s.others = append(s.others, f.Rest...)
			s.catchUp(f)
		}
	case Unanswered:
		if cancelled && f.Began != 0 && s.FirstAttemptAt == 0 && s.Kind != KindRedaction {
			s.FirstAttemptAt, s.Device, s.Error = f.Began, f.Device, InDoubt
			s.search(s.Entry)
		}
	case Absent:
		s.effect(Tell{NeverArrived{}})
	}
}

// remove removes the event of an entry of the same message, perhaps in another room.
func (s *step) remove(e Entry) {
	r := s.Follow(KindRedaction, s.at)
	r.EventID, r.Room = e.EventID, e.Room
	s.others = append(s.others, r)
}

// search removes the event of an entry that may have arrived, if the room has it.
func (s *step) search(e Entry) {
	r := s.Follow(KindRedaction, s.at)
	r.Marker, r.Room = e.Txn, e.Room
	s.others = append(s.others, r)
}

// withdraw cancels a message that isn't sent, and removes the events of one that is. A message that was attempted without an answer
// may have arrived: its error says so, and its event is searched for and removed.
func (s *step) withdraw(followUps []Entry) {
	switch s.State {
	case StateCancelled, StateRedacted:
	case StateSent:
		removing := s.cancel(followUps)
		if !removing {
			s.removeAll(followUps)
		}
		for _, f := range followUps {
			if f.State.Pending() && f.Kind != KindRedaction && f.FirstAttemptAt > 0 {
				s.search(f)
			}
		}
	default:
		s.Error, s.Code, s.Wire = "", "", nil
		s.cancel(followUps)
		if s.FirstAttemptAt > 0 {
			s.Error = InDoubt
			s.search(s.Entry)
		}
		s.State, s.NextAt, s.FinalAt = StateCancelled, 0, s.at
	}
}

// cancel cancels the pending follow-ups except removals and reports whether a removal is pending.
func (s *step) cancel(followUps []Entry) (removing bool) {
	for _, f := range followUps {
		switch {
		case !f.State.Pending():
		case f.Kind == KindRedaction:
			removing = true
		default:
			f.State, f.FinalAt = StateCancelled, s.at
			s.others = append(s.others, f)
		}
	}
	return removing
}

// removeAll removes the events of a message.
func (s *step) removeAll(followUps []Entry) {
	for _, f := range append([]Entry{s.Entry}, followUps...) {
		if f.Kind != KindRedaction && f.State == StateSent && f.EventID != "" {
			s.remove(f)
		}
	}
}

// redeliver queues a message again. One that may have arrived is sent again, because a person chose so; a waiting removal is void.
func (s *step) redeliver(f Redelivered) {
	if !s.State.Redeliverable() {
		return
	}
	if s.State == StateAmbiguous {
		s.Txn, s.FirstAttemptAt, s.Device, s.EventType, s.Wire, s.Cut, s.EventID = f.Txn, 0, "", "", nil, false, ""
	}
	s.State, s.QueuedAt, s.NextAt, s.FinalAt, s.Error, s.Code = StateQueued, s.at, 0, 0, "", ""
	for _, u := range f.FollowUps {
		if u.Kind == KindRedaction && u.State.Pending() {
			u.State, u.FinalAt = StateCancelled, s.at
			s.others = append(s.others, u)
		}
	}
}

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
