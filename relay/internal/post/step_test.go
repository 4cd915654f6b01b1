package post

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	queued    = StateQueued
	waits     = StateRetryWait
	sent      = StateSent
	ambiguous = StateAmbiguous
	dead      = StateDead
	cancelled = StateCancelled
	redacted  = StateRedacted
)

// of returns an entry of message 7 in room 1.
func of(kind Kind, state State, change ...func(*Entry)) Entry {
	e := Entry{ID: 7, Kind: kind, Origin: Origin{Room: 1, Thread: "th"}, Content: Content{Title: "T", Body: "b", Priority: 1}, Txn: "t", State: state, Wire: []byte("w")}
	if kind != KindMessage {
		e.ID, e.Target, e.Txn = 8, 7, "u"
	}
	if !state.Pending() {
		e.FinalAt = 3
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

// follow returns a follow-up of message 7 that a step makes.
func follow(kind Kind, change ...func(*Entry)) Entry {
	e := Entry{Kind: kind, Target: 7, Place: 7, Origin: Origin{Room: 1, Thread: "th"}, QueuedAt: 9, State: queued}
	for _, c := range change {
		c(&e)
	}
	return e
}

func marker(txn string) func(*Entry)  { return func(e *Entry) { e.Marker = txn } }
func ended(e *Entry)                  { e.FinalAt = 9 }
func event(id string) func(*Entry)    { return func(e *Entry) { e.EventID = id } }
func revised(at int64) func(*Entry)   { return func(e *Entry) { e.RevisedAt = at } }
func attempted(at int64) func(*Entry) { return func(e *Entry) { e.FirstAttemptAt = at } }
func failed(text string) func(*Entry) { return func(e *Entry) { e.Error = text } }

func TestStep(t *testing.T) {
	caughtUp := follow(KindEdit, func(e *Entry) { e.Content = Content{Title: "T", Body: "b", Priority: 1} })
	file := follow(KindFile, func(e *Entry) { e.Txn, e.Content = "tf", Content{Title: "T", Body: "b", Priority: 1} })
	rest := []Entry{file}
	tests := []struct {
		name    string
		entry   Entry
		fact    Fact
		state   State
		err     string // begins the entry's error
		others  []Entry
		effects []Effect
	}{
		{"a message is sent", of(KindMessage, queued, failed("old")), Sent{EventID: "$1"}, sent, "", nil, []Effect{Count{}}},
		{"a file follows", of(KindMessage, waits), Sent{EventID: "$1", Rest: rest}, sent, "", rest, []Effect{Count{}}},
		{"a file is sent", of(KindFile, queued), Sent{EventID: "$2"}, sent, "", nil, nil},
		{"an event is removed", of(KindRedaction, queued, event("$1")), Sent{EventID: "$1"}, sent, "", nil, []Effect{Tell{Removed{"$1"}}}},
		{"nothing was to remove", of(KindRedaction, queued), Absent{}, cancelled, "", nil, []Effect{Tell{NeverArrived{}}}},
		{"no answer", of(KindMessage, queued), Unanswered{Reason: "away", Began: 5, Wait: time.Second}, waits, "away", nil, []Effect{Retry{time.Second}}},
		{"stopped", of(KindMessage, queued), Unanswered{Reason: "stopped", Began: 5, Interrupted: true}, waits, "stopped", nil, []Effect{Retry{0}}},
		{"told to wait", of(KindMessage, queued), NotSent{Reason: "limit", Wait: time.Minute}, waits, "limit", nil, []Effect{Retry{time.Minute}}},
		{"too large", of(KindMessage, queued), TooLarge{Reason: "large"}, queued, "large", nil, nil},
		{"too large again", of(KindMessage, queued, func(e *Entry) { e.Shrunk = SizeShort }), TooLarge{Reason: "large"}, queued, "large", nil, nil},
		{"too large as a notice", of(KindMessage, queued, func(e *Entry) { e.Shrunk = SizeNotice }), TooLarge{Reason: "large"}, dead, "large", nil, []Effect{Count{}}},
		{"a message is refused", of(KindMessage, queued), Refused{Reason: "no"}, dead, "no", nil, []Effect{Count{}}},
		{"a file is refused", of(KindFile, queued), Refused{Reason: "no"}, dead, "no", nil, []Effect{Tell{FollowUpFailed{"The file with the whole text could not be sent: no"}}}},
		{
			"a removal is refused", of(KindRedaction, queued, event("$1")),
			Refused{Reason: "no"},
			dead, "no", nil,
			[]Effect{Tell{FollowUpFailed{"The event could not be removed from the room: no"}}},
		},
		{"a search is refused", of(KindRedaction, queued), Refused{Reason: "no"}, dead, "no", nil, nil},
		{"in doubt", of(KindMessage, waits, attempted(1)), Unproven{}, ambiguous, "Whether the message arrived", nil, nil},
		{"a removal in doubt", of(KindRedaction, waits), Unproven{}, ambiguous, "", nil, nil},
		{"too old", of(KindMessage, waits), Expired{Reason: "old"}, dead, "old", nil, []Effect{Count{}}},
		{"a file is too old", of(KindFile, waits), Expired{Reason: "old"}, dead, "old", nil, []Effect{Tell{FollowUpFailed{"The file with the whole text could not be sent: old"}}}},
		{"a reminder is needless", of(KindReply, queued), Needless{}, cancelled, "", nil, nil},
		{"the application is gone", of(KindMessage, queued), Orphaned{}, cancelled, "The application", nil, nil},

		{"an edit is sent", of(KindEdit, queued), Sent{EventID: "$2"}, sent, "", nil, nil},
		{"an edit is refused", of(KindEdit, queued), Refused{Reason: "no"}, dead, "no", nil, []Effect{Tell{FollowUpFailed{"The message could not be edited: no"}}}},
		{"an edit is too large", of(KindEdit, queued), TooLarge{Reason: "large"}, dead, "large", nil, []Effect{Tell{FollowUpFailed{"The message could not be edited: large"}}}},
		{"a reply is refused", of(KindReply, queued), Refused{Reason: "no"}, dead, "no", nil, []Effect{Tell{FollowUpFailed{"A reply in its thread could not be sent: no"}}}},
		{"revised, then sent", of(KindMessage, queued, revised(4)), Sent{EventID: "$1", Said: 4}, sent, "", nil, []Effect{Count{}}},
		{"revised, attempted, then sent", of(KindMessage, waits, revised(4), attempted(5)), Sent{EventID: "$1", Said: 4}, sent, "", nil, []Effect{Count{}}},
		{"revised during the attempt", of(KindMessage, queued, revised(4)), Sent{EventID: "$1"}, sent, "", []Entry{caughtUp}, []Effect{Count{}}},
		{"revised after an attempt that nobody knew of", of(KindMessage, queued, revised(4), attempted(3)), Sent{EventID: "$1", Said: 4}, sent, "", []Entry{caughtUp}, []Effect{Count{}}},
		{"an edit is revised during the attempt", of(KindEdit, queued, revised(4)), Sent{EventID: "$1"}, sent, "", []Entry{caughtUp}, nil},
		{"a reaction is sent", of(KindReaction, queued), Sent{EventID: "$2"}, sent, "", nil, nil},
		{"a reaction is refused", of(KindReaction, queued), Refused{Reason: "no"}, dead, "no", nil, nil},

		{"withdrawn, waits, an edit too", of(KindMessage, waits), Withdrawn{[]Entry{of(KindEdit, queued)}}, cancelled, "", []Entry{of(KindEdit, cancelled, ended)}, nil},
		{"withdrawn, edited", of(KindMessage, sent, event("$1")), Withdrawn{[]Entry{of(KindEdit, sent, event("$2"))}}, sent, "", []Entry{follow(KindRedaction, event("$1")), follow(KindRedaction, event("$2"))}, nil},
		{"withdrawn, waits", of(KindMessage, waits, failed("away")), Withdrawn{}, cancelled, "", nil, nil},
		{
			"withdrawn, in doubt", of(KindMessage, waits, attempted(1)),
			Withdrawn{},
			cancelled, InDoubt,
			[]Entry{follow(KindRedaction, marker("t"))},
			nil,
		},
		{
			"withdrawn, sent", of(KindMessage, sent, event("$1")),
			Withdrawn{[]Entry{of(KindFile, sent, event("$2"))}},
			sent, "",
			[]Entry{follow(KindRedaction, event("$1")), follow(KindRedaction, event("$2"))},
			nil,
		},
		{
			"withdrawn, a file in doubt", of(KindMessage, sent, event("$1")),
			Withdrawn{[]Entry{of(KindFile, waits, attempted(1))}},
			sent, "",
			[]Entry{
				of(KindFile, cancelled, attempted(1), ended),
				follow(KindRedaction, event("$1")),
				follow(KindRedaction, marker("u")),
			},
			nil,
		},
		{"withdrawn twice", of(KindMessage, sent, event("$1")), Withdrawn{[]Entry{of(KindRedaction, queued, event("$1"))}}, sent, "", nil, nil},
		{"withdrawn before", of(KindMessage, redacted, event("$1")), Withdrawn{}, redacted, "", nil, nil},
		{"redelivered", of(KindMessage, dead, failed("no")), Redelivered{Txn: "new"}, queued, "", nil, nil},
		{
			"redelivered while it is removed", of(KindMessage, cancelled),
			Redelivered{FollowUps: []Entry{of(KindRedaction, queued)}},
			queued, "",
			[]Entry{of(KindRedaction, cancelled, ended)},
			nil,
		},
		{"sent and redelivered", of(KindMessage, sent), Redelivered{}, sent, "", nil, nil},

		{"removed", of(KindMessage, sent, event("$1")), Removed{"$1"}, redacted, "", nil, nil},
		{"removed another", of(KindMessage, sent, event("$2")), Removed{"$1"}, sent, "", nil, nil},
		{"removed, queued again", of(KindMessage, queued), Removed{"$1"}, queued, "", nil, nil},
		{"was not there", of(KindMessage, cancelled, failed(InDoubt)), NeverArrived{}, cancelled, "", nil, nil},
		{"incomplete", of(KindMessage, sent), FollowUpFailed{"half"}, sent, "half", nil, nil},
		{"not edited, unclear", of(KindMessage, ambiguous, failed("look into the room")), FollowUpFailed{"half"}, ambiguous, "look into the room", nil, nil},
		{"not edited, given up", of(KindMessage, dead, failed("no")), FollowUpFailed{"half"}, dead, "no", nil, nil},
		{"incomplete, queued again", of(KindMessage, queued), FollowUpFailed{"half"}, queued, "", nil, nil},

		{
			"sent late, withdrawn", of(KindMessage, cancelled),
			Sent{EventID: "$1"},
			sent, "",
			[]Entry{follow(KindRedaction, event("$1"))},
			[]Effect{Count{}},
		},
		{"a reminder is sent late, needless", of(KindReply, cancelled, func(e *Entry) { e.Code = needless }), Sent{EventID: "$1"}, sent, "", nil, nil},
		{"a reminder is in doubt late, needless", of(KindReply, cancelled, func(e *Entry) { e.Code = needless }), Unanswered{Began: 5}, cancelled, "", nil, nil},
		{"sent late, given up", of(KindMessage, dead, failed("old")), Sent{EventID: "$1", Rest: rest}, sent, "", rest, []Effect{Count{}}},
		{"sent, stored already", of(KindMessage, sent, event("$1")), Sent{EventID: "$1", Rest: rest}, sent, "", nil, nil},
		{
			"in doubt late, withdrawn", of(KindMessage, cancelled),
			Unanswered{Began: 5},
			cancelled, InDoubt,
			[]Entry{follow(KindRedaction, marker("t"))},
			nil,
		},
		{"not sent late, withdrawn", of(KindMessage, cancelled), Unanswered{}, cancelled, "", nil, nil},
		{"not sent late, given up", of(KindMessage, dead, failed("old")), Refused{Reason: "no"}, dead, "old", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, others, effects := Step(tt.entry, tt.fact, 9)
			if got.State != tt.state || !strings.HasPrefix(got.Error, tt.err) || tt.err == "" && got.Error != "" {
				t.Errorf("%s %q, want %s %q", got.State, got.Error, tt.state, tt.err)
			}
			if got.State.Pending() != (got.FinalAt == 0) {
				t.Errorf("%s with FinalAt %d", got.State, got.FinalAt)
			}
			if !reflect.DeepEqual(others, tt.others) {
				t.Errorf("others: %+v\nwant %+v", others, tt.others)
			}
			if !reflect.DeepEqual(effects, tt.effects) {
				t.Errorf("effects: %+v, want %+v", effects, tt.effects)
			}
		})
	}
}

// Once a copy of an event may have arrived its bytes stay the same; before, they are rendered again.
func TestStep_KeepsBytes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		entry Entry
		fact  Fact
		kept  bool
		first int64
	}{
		{"no answer", of(KindMessage, queued), Unanswered{Began: 5}, true, 5},
		{"no answer again", of(KindMessage, waits, attempted(2)), Unanswered{Began: 5}, true, 2},
		{"no room to send to", of(KindMessage, queued), Unanswered{}, false, 0},
		{"not sent", of(KindMessage, queued), NotSent{}, false, 0},
		{"not sent after an attempt", of(KindMessage, waits, attempted(2)), NotSent{}, true, 2},
		{"sent", of(KindMessage, waits, attempted(2)), Sent{EventID: "$1"}, false, 2},
		{"in doubt", of(KindMessage, waits, attempted(2)), Unproven{}, true, 2},
		{"refused", of(KindMessage, queued), Refused{}, false, 0},
		{"too large", of(KindMessage, waits, attempted(2)), TooLarge{}, false, 0},
		{"sent anew", of(KindMessage, ambiguous, attempted(2)), Redelivered{Txn: "new"}, false, 0},
		{"sent again", of(KindMessage, dead, attempted(2)), Redelivered{Txn: "new"}, true, 2},
	} {
		got, _, _ := Step(tt.entry, tt.fact, 9)
		if (got.Wire != nil) != tt.kept || got.FirstAttemptAt != tt.first {
			t.Errorf("%s: bytes %q, first attempt at %d", tt.name, got.Wire, got.FirstAttemptAt)
		}
	}
}

// A delayed entry waits until its time has come, and what waits for another attempt isn't concerned.
func TestStep_Due(t *testing.T) {
	next := func(at int64) func(*Entry) { return func(e *Entry) { e.NextAt = at } }
	for _, tt := range []struct {
		entry Entry
		next  int64
	}{{of(KindMessage, queued, next(9)), 0}, {of(KindMessage, queued, next(10)), 10}, {of(KindMessage, waits, next(8)), 8}} {
		if got, _, _ := Step(tt.entry, Due{}, 9); got.NextAt != tt.next || got.State != tt.entry.State {
			t.Errorf("%s at %d: %s at %d, want %d", tt.entry.State, tt.entry.NextAt, got.State, got.NextAt, tt.next)
		}
	}
}
