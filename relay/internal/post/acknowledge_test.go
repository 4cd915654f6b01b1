package post

import (
	"testing"
	"time"
)

const halfMinute = int64(30 * time.Second / time.Millisecond)

// insisted returns an alert that began and asks for reminders from the time 0 on.
func insisted(key string) Alert {
	a, d := TakeReport(Alert{Key: key}, false, Report{Priority: 2, Retry: 30 * time.Second, Expire: 3 * time.Minute}, LifecycleEdit, 1)
	if !d.React {
		panic("no reminders")
	}
	a.MessageID = 7
	a.NextAt, a.ExpiresAt = halfMinute, 6*halfMinute
	return a
}

func TestAcknowledges(t *testing.T) {
	for reaction, want := range map[string]bool{"✅": true, "✅\uFE0F": true, "👍": false, "": false, "\uFE0F": false, "✅✅": false} {
		if Acknowledges(reaction) != want {
			t.Errorf("%q: %v", reaction, !want)
		}
	}
}

func TestRemind(t *testing.T) {
	a, escalation := insisted(""), Escalation{After: 2, To: []string{"@b:hs", "!c:hs"}}
	if _, r := Remind(a, false, false, false, escalation, halfMinute-1); r != (Reminder{}) {
		t.Errorf("too early: %+v", r)
	}
	if b, r := Remind(a, false, false, true, escalation, halfMinute); r != (Reminder{}) || b.NextAt != 2*halfMinute || b.Repeats != 0 {
		t.Errorf("a reminder waits: %+v", r)
	}
	if b, r := Remind(a, true, false, false, escalation, halfMinute); r != (Reminder{}) || b.NextAt != 0 || b.ClosedAt == 0 {
		t.Errorf("the message is gone: %+v", r)
	}
	for i, to := range []string{"", "", "@b:hs", "@b:hs", "!c:hs"} {
		var r Reminder
		if a, r = Remind(a, false, false, false, escalation, int64(i+1)*halfMinute); !r.Send || r.To != to || r.Expired {
			t.Errorf("reminder %d: %+v", i+1, r)
		}
	}
	a, r := Remind(a, false, false, false, escalation, a.NextAt)
	if r.Send || !r.Expired || a.NextAt != 0 || a.ClosedAt == 0 || !a.Expired(6*halfMinute) {
		t.Errorf("at the end: %+v, %+v", r, a)
	}
	unsent, r := Remind(insisted(""), false, true, false, escalation, 9*halfMinute)
	if r != (Reminder{}) || unsent.NextAt != 10*halfMinute || unsent.ExpiresAt != 15*halfMinute || unsent.ClosedAt != 0 {
		t.Errorf("the message isn't in the room: %+v, %+v", unsent, r)
	}
	ahead := insisted("k")
	ahead.NextAt, ahead.ExpiresAt = 1<<50, 1<<50
	if a, r := Remind(ahead, false, false, false, Escalation{}, 1); !r.Send || a.NextAt != 1+halfMinute || a.ExpiresAt != 1+MaxExpire.Milliseconds() {
		t.Errorf("the clock was set back: %+v, %+v", a, r)
	}
	if a, _ := Remind(ahead, false, true, false, Escalation{}, 1); a.NextAt != 1+halfMinute || a.ExpiresAt != 1+MaxExpire.Milliseconds() {
		t.Errorf("the clock was set back before the message was sent: %+v", a)
	}
	late, _ := Remind(insisted("k"), false, false, false, Escalation{}, 5*halfMinute+1) // as after an outage: one reminder for all that were missed
	if late.Repeats != 1 || late.NextAt != late.ExpiresAt {
		t.Errorf("late: %+v", late)
	}
	if over, _ := Remind(insisted("k"), false, false, false, Escalation{}, 6*halfMinute); over.ClosedAt != 0 {
		t.Error("an alert with a key is over when its reminders are")
	}
}

func TestAcknowledge(t *testing.T) {
	a, news := Acknowledge(insisted("k"), "@a:hs", 5)
	if !news || a.NextAt != 0 || a.ClosedAt != 0 || a.Standing() != "Acknowledged by @a:hs." || a.Expired(1<<50) {
		t.Errorf("%+v", a)
	}
	if _, again := Acknowledge(a, "@b:hs", 6); again {
		t.Error("it is acknowledged twice")
	}
	if b, _ := Acknowledge(insisted(""), "@a:hs", 5); b.ClosedAt != 5 {
		t.Errorf("without a key: %+v", b)
	}
	if _, news := Acknowledge(Alert{}, "@a:hs", 5); news {
		t.Error("no alert is acknowledged")
	}
	more, d := TakeReport(a, true, Report{Priority: 1, Digest: []byte("x")}, LifecycleEdit, 6)
	if more.AcknowledgedAt == 0 || d.Note != "Acknowledged by @a:hs." {
		t.Errorf("changed: %+v, %+v", more, d)
	}
	over, d := TakeReport(more, true, Report{Resolves: true, At: 1000}, LifecycleEdit, 1000)
	if _, news := Acknowledge(over, "@b:hs", 7); news || d.Note != "✅ Resolved after 0 s. Acknowledged by @a:hs." {
		t.Errorf("over: %+v", d)
	}
	again, d := TakeReport(more, true, Report{Priority: 2, Digest: []byte("y"), Retry: time.Minute, Expire: time.Hour}, LifecycleEdit, 6)
	if again.AcknowledgedAt != 0 || again.NextAt == 0 || !d.React || !d.Ring {
		t.Errorf("escalated: %+v, %+v", again, d)
	}
}

func TestInsist(t *testing.T) {
	for name, r := range map[string]Report{
		"a low priority": {Priority: 1, Retry: time.Minute, Expire: time.Hour},
		"no retry":       {Priority: 2, Expire: time.Hour},
		"the end":        {Priority: 2, Retry: time.Minute, Expire: time.Hour, Resolves: true},
	} {
		if a, d := TakeReport(Alert{}, false, r, LifecycleEdit, 1); a.NextAt != 0 || d.React {
			t.Errorf("%s: %+v", name, a)
		}
	}
	a, _ := TakeReport(Alert{}, false, Report{Priority: 2, Retry: time.Second, Expire: 24 * time.Hour}, LifecycleEdit, 0)
	if a.Retry != MinRetry.Milliseconds() || a.ExpiresAt != MaxExpire.Milliseconds() {
		t.Errorf("out of bounds: %+v", a)
	}
	stopped := StopReminders(insisted(""), 5)
	if stopped.NextAt != 0 || stopped.ClosedAt != 5 || !stopped.Expired(5) {
		t.Errorf("stopped: %+v", stopped)
	}
}
