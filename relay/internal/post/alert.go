package post

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Lifecycle is how the messages of an application follow what they are about.
type Lifecycle string

// The life cycles.
const (
	LifecycleEdit   Lifecycle = "edit"   // changes and the end edit the message
	LifecycleThread Lifecycle = "thread" // changes and the end are replies in the message's thread
	LifecycleNew    Lifecycle = "new"    // changes and the end are messages of their own
)

// FlapWindow is how long after its end an alert that fires again continues its message, if its sender doesn't say since when it fires.
const FlapWindow = 15 * time.Minute

// Alert is the state of something that fires and ends. Times are Unix milliseconds; 0 means never.
type Alert struct {
	MessageID     int64 // the message that shows it
	ApplicationID int64
	Key           string // names it within the application
	Episode       int64  // when it began to fire, by the sender's clock; 0 if unknown, or if that was ahead
	BeganAt       int64  // Episode, or when the first report came
	ChangedAt     int64  // of the last report, also of one that said nothing new
	ClosedAt      int64  // when it ended
	Times         int    // how often it has fired under this message
	Priority      int    // of the last report
	Said          []byte // digest of the last report

	Retry          int64 // between reminders, in milliseconds
	ExpiresAt      int64 // there are no reminders from then on
	NextAt         int64 // of the next reminder
	Repeats        int   // reminders so far
	AcknowledgedAt int64
	AcknowledgedBy string // a Matrix ID, or a name
}

// Open reports whether there is an alert that isn't over.
func (a *Alert) Open() bool { return a.MessageID != 0 && a.ClosedAt == 0 }

// Reschedule gives delayed message t of the alert the content, the room and the time of message e, a later report of it. e becomes t. It
// reports whether reminders begin now.
func (a *Alert) Reschedule(t, e *Entry, r Report) (remind bool) {
	t.Revise(e.Content, e.AcceptedAt)
	t.Room, t.QueuedAt, t.NextAt = e.Room, e.QueuedAt, e.NextAt
	e.ID, a.MessageID = t.ID, t.ID
	a.BeganAt, a.ChangedAt, a.ClosedAt, a.Times = e.QueuedAt, e.AcceptedAt, 0, 1
	a.Priority, a.Said = e.Priority, r.Digest
	a.Retry, a.ExpiresAt, a.NextAt = 0, 0, 0
	remind = a.insist(r, e.AcceptedAt)
	if t.Delayed() {
		a.Postpone(t.NextAt, e.AcceptedAt)
		return false
	}
	return remind
}

// AlertOf returns the alert that message m of an application would have begun. ok is false if none can be about it: it is the relay's, or a
// digest, which others are in too.
func AlertOf(m *Entry, application int64) (a Alert, ok bool) {
	if m.Kind != KindMessage || m.ApplicationID != application || m.Source == SourceRelay || m.Source == SourceDigest {
		return a, false
	}
	return Alert{MessageID: m.ID, BeganAt: m.AcceptedAt, Times: 1, Priority: m.Priority}, true
}

// Report is a sender's statement about an alert.
type Report struct {
	Resolves bool   // it is over
	Began    int64  // when it began to fire, by the sender's clock; 0 if unknown
	At       int64  // when this happened, by the sender's clock; 0 if unknown
	Priority int    // -2 … 2
	Digest   []byte // of the text
	Own      bool   // it is the relay's, whose alarms flap though each has a start of its own

	// Retry asks at priority 2 for reminders until somebody acknowledges the alert or Expire is over; 0 for none.
	Retry, Expire time.Duration
}

// Action is what a report does.
type Action int

// The actions.
const (
	ActionIgnore Action = iota // nothing new
	ActionStart                // a message of its own, which shows the alert from then on
	ActionChange               // an edit of the message
	ActionReply                // a reply in the thread of the message
)

// Decision is the effect of a report.
type Decision struct {
	Action Action
	Ring   bool   // the priority has risen: besides the edit, or by the reply, somebody is mentioned
	React  bool   // reminders begin: the message gets the reaction that acknowledges them
	Note   string // a line about the state above the text; "" for none
}

// TakeReport applies a report to an alert at the given time. The alert is the last one of its key, or zero. shown reports whether its message
// is in the room or on its way there. Nothing is taken to have happened after at: a clock may be wrong, the sender's or, before it was
// set back, the relay's.
func TakeReport(a Alert, shown bool, r Report, lifecycle Lifecycle, at int64) (Alert, Decision) {
	known, open := a.MessageID != 0, a.MessageID != 0 && a.ClosedAt == 0
	if a.Episode > at {
		a.Episode = 0
	}
	switch r.At = min(r.At, at); {
	case r.Began <= at:
	case open && !r.Resolves:
		r.Began = a.Episode
	default:
		r.Began = 0 // not at: a sender whose clock is right may report the same with an earlier time
	}
	switch {
	case known && r.Began != 0 && r.Began < a.Episode, // of a time before
		known && !open && r.Began != 0 && r.Began == a.Episode, // repeats what is over
		known && !open && r.Began == 0 && r.Resolves && bytes.Equal(r.Digest, a.Said):
		return a, Decision{}
	case open && shown && !r.Resolves && bytes.Equal(r.Digest, a.Said) && (r.Own || a.Episode == 0 || r.Began <= a.Episode):
		a.ChangedAt, a.Episode = at, max(a.Episode, r.Began)
		return a, Decision{}
	}
	before := a
	again := known && !r.Own && !r.Resolves && a.Episode != 0 && r.Began > a.Episode // its end may have been lost, or is never reported
	flaps := !again && known && !open && !r.Resolves && at >= a.ClosedAt && at-a.ClosedAt <= FlapWindow.Milliseconds()
	continues, begins := shown && (open && !again || flaps), !shown || !open || again
	if !continues {
		a = Alert{ApplicationID: a.ApplicationID, Key: a.Key}
	}
	if begins {
		a.Episode, a.BeganAt, a.ClosedAt = 0, cmp.Or(r.Began, r.At, at), 0
		a.Times++
	}
	if begins || rises(before, r) {
		a.AcknowledgedAt, a.AcknowledgedBy = 0, ""
	}
	a.Episode, a.ChangedAt, a.Priority, a.Said = max(a.Episode, r.Began), at, r.Priority, r.Digest
	d := Decision{Action: ActionChange, Ring: rises(before, r), React: a.insist(r, at)}
	if r.Resolves {
		a.ClosedAt, a.NextAt = at, 0
	}
	d.Note = note(a, r, at)
	switch {
	case !continues || lifecycle == LifecycleNew:
		d.Action, d.Ring, d.React = ActionStart, false, a.NextAt != 0
	case lifecycle == LifecycleThread:
		d.Action = ActionReply
	}
	return a, d
}

// rises reports whether a report must ring though an alert has rung before.
func rises(before Alert, r Report) bool {
	return !r.Resolves && r.Priority >= 1 && r.Priority > before.Priority
}

// note returns the line about the state of an alert.
func note(a Alert, r Report, at int64) string {
	var parts []string
	if r.Resolves {
		text := "✅ Resolved."
		if took := time.Duration(cmp.Or(r.At, at)-a.BeganAt) * time.Millisecond; took > 0 {
			text = "✅ Resolved after " + FormatDuration(took) + "."
		}
		parts = append(parts, text)
	}
	if standing := a.Standing(); standing != "" {
		parts = append(parts, standing)
	}
	return strings.Join(parts, " ")
}

// FormatDuration formats a duration for people.
func FormatDuration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// Crowd is the part of a report in a request about a group of alerts. A large group has one message of its own, which stands for the alerts that have
// none.
type Crowd int

// The parts of a notification. An entry for the whole group follows those of its alerts.
const (
	CrowdAlone       Crowd = iota
	CrowdOneOfFew          // unless the group has a message already, it has one of its own
	CrowdOneOfMany         // only what has a message already goes on with it
	CrowdWhole             // of many: it has a message
	CrowdWholeIfOpen       // of few: it goes on with the message of the group
)

// Skips reports whether a report in the group has no message and no edit: the message of the group has its words, or isn't needed. open
// reports whether the alert is, group whether that of the group is, which matters for CrowdOneOfFew only.
func (c Crowd) Skips(open, group bool) bool {
	switch c {
	case CrowdOneOfMany, CrowdWholeIfOpen:
		return !open
	case CrowdOneOfFew:
		return !open && group
	}
	return false
}

// CrowdKey names the alert of a group; "" if the group has no name.
func CrowdKey(group string) string {
	if group == "" {
		return ""
	}
	return "group:" + group
}

// GroupThread returns the beginning of the names of a group's threads. Each goes on with the time at which it began.
func GroupThread(group string) string { return "group:" + group + ":" }
