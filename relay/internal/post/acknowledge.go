package post

import (
	"fmt"
	"strings"
	"time"

	"slipway/relay/internal/format"
)

// The bounds of reminders, which are Pushover's.
const (
	MinRetry  = 30 * time.Second
	MaxExpire = 3 * time.Hour
)

// AckReaction is the reaction that acknowledges an alert.
const AckReaction = "✅"

// Acknowledges reports whether a reaction acknowledges an alert. Clients may add a variation selector.
func Acknowledges(reaction string) bool { return strings.TrimSuffix(reaction, "\uFE0F") == AckReaction }

// insist begins reminders if a report asks for them. It reports whether they begin now.
func (a *Alert) insist(r Report, at int64) bool {
	if r.Retry <= 0 || r.Priority < 2 || r.Resolves || a.NextAt != 0 || a.AcknowledgedAt != 0 {
		return false
	}
	a.Retry, a.ExpiresAt, a.Repeats = max(r.Retry, MinRetry).Milliseconds(), at+min(r.Expire, MaxExpire).Milliseconds(), 0
	a.NextAt = min(at+a.Retry, a.ExpiresAt)
	return true
}

// Postpone puts reminders that have begun off until their message, which is delayed, is due.
func (a *Alert) Postpone(due, at int64) {
	if a.NextAt != 0 {
		a.NextAt, a.ExpiresAt = 0, a.ExpiresAt+due-at
	}
}

// Begin begins the reminders that were put off until a message was due. It reports whether there are any.
func (a *Alert) Begin(due, at int64) bool {
	if a.Retry == 0 || a.NextAt != 0 || a.AcknowledgedAt != 0 || a.ExpiresAt <= due {
		return false
	}
	a.ExpiresAt += at - due
	a.NextAt = min(at+a.Retry, a.ExpiresAt)
	return true
}

// Escalation alerts others after a number of reminders.
type Escalation struct {
	After int      // 0 for never
	To    []string // Matrix IDs and rooms, each for as many reminders, the last for all that follow
}

// to returns whom the n-th reminder turns to, counting from 1; "" for those whom the message mentions.
func (e Escalation) to(n int) string {
	if e.After <= 0 || len(e.To) == 0 || n <= e.After {
		return ""
	}
	return e.To[min((n-1)/e.After-1, len(e.To)-1)]
}

// Reminder is the decision about a due reminder.
type Reminder struct {
	Send    bool
	To      string // a Matrix ID or a room that it turns to; "" for those whom the message mentions
	Text    string
	Expired bool // nobody has acknowledged the alert: the message says so
}

// Entry returns the entry of a reminder of message m: a reply in its thread that turns to somebody, or to those whom m mentions.
func (r Reminder) Entry(m *Entry, at int64) Entry {
	e := m.Follow(KindReply, at)
	e.Place, e.Source, e.AcceptedAt = 0, SourceReminder, at
	e.Content = Content{Body: r.Text, ContentType: format.Plain, Priority: m.Priority}
	if strings.HasPrefix(r.To, "@") {
		e.Mentions, e.Body = r.To, r.To+": "+r.Text
	}
	return e
}

// CopyTo returns the entry of a reminder as a copy of message m in another room.
func (r Reminder) CopyTo(room int64, m *Entry, at int64) Entry {
	e := r.Entry(m, at)
	e.Room, e.Content, e.Thread = room, m.Content, ""
	e.Note, e.Attachments = r.Text, ""
	return e
}

// Remind decides on an alert whose time of the next reminder has come. gone reports that its message is not in the room and won't
// be, unsent that the message is still on its way, waits that an earlier reminder is. Nobody can acknowledge what isn't in the room, so the
// time of the reminders doesn't run before. A time further ahead than it is ever set was set before the clock was set back.
func Remind(a Alert, gone, unsent, waits bool, e Escalation, at int64) (Alert, Reminder) {
	a.ExpiresAt = min(a.ExpiresAt, at+MaxExpire.Milliseconds())
	switch {
	case a.NextAt == 0 || at < a.NextAt && a.NextAt <= at+a.Retry:
		return a, Reminder{}
	case gone:
		return a.settle(at), Reminder{}
	case unsent:
		a.ExpiresAt += max(0, at+a.Retry-a.NextAt)
		a.NextAt = at + a.Retry
		return a, Reminder{}
	case at >= a.ExpiresAt:
		return a.settle(at), Reminder{Expired: true}
	}
	a.NextAt = min(at+a.Retry, a.ExpiresAt)
	if waits {
		return a, Reminder{}
	}
	a.Repeats++
	return a, Reminder{Send: true, To: e.to(a.Repeats), Text: "Nobody has acknowledged this yet. React with " + AckReaction + " to acknowledge it."}
}

// settle ends the reminders. Nobody resolves an alert without a key: it is over with them.
func (a Alert) settle(at int64) Alert {
	a.NextAt = 0
	if a.Key == "" && a.ClosedAt == 0 {
		a.ClosedAt = at
	}
	return a
}

// Acknowledge records the acknowledgement. It reports whether the alert was open and unacknowledged.
func Acknowledge(a Alert, by string, at int64) (Alert, bool) {
	if a.MessageID == 0 || a.ClosedAt != 0 || a.AcknowledgedAt != 0 {
		return a, false
	}
	a = a.settle(at)
	a.AcknowledgedAt, a.AcknowledgedBy = at, by
	return a, true
}

// StopReminders ends the reminders of an alert that nobody has acknowledged, for its sender.
func StopReminders(a Alert, at int64) Alert {
	if a.NextAt == 0 && (a.AcknowledgedAt != 0 || at >= a.ExpiresAt) {
		return a
	}
	a.ExpiresAt = at
	return a.settle(at)
}

// Expired reports whether the reminders ended without an acknowledgement.
func (a Alert) Expired(at int64) bool {
	return a.Retry > 0 && a.AcknowledgedAt == 0 && a.NextAt == 0 && at >= a.ExpiresAt
}

// Standing returns the line about an alert that holds until its next report; "" for none.
func (a Alert) Standing() string {
	var parts []string
	if a.Times > 1 {
		parts = append(parts, fmt.Sprintf("It has fired %d times.", a.Times))
	}
	if a.AcknowledgedAt != 0 {
		parts = append(parts, "Acknowledged by "+a.AcknowledgedBy+".")
	}
	return strings.Join(parts, " ")
}

// Unacknowledged is the line about an alert that nobody has acknowledged in time.
func (a Alert) Unacknowledged() string {
	return strings.TrimSpace(a.Standing() + " Nobody acknowledged it in time.")
}
