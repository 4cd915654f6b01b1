package post

import (
	"testing"
	"time"
)

const minute = int64(time.Minute / time.Millisecond)

// reports of an alert that began at the minute of its first number and was reported at the minute of its second one.
func fires(began, at int64, text string, priority int) Report {
	return Report{Began: began * minute, At: at * minute, Digest: []byte(text), Priority: priority}
}

func ends(began, at int64, text string) Report {
	r := fires(began, at, text, 0)
	r.Resolves = true
	return r
}

func TestTakeReport(t *testing.T) {
	fired, _ := TakeReport(Alert{ApplicationID: 3, Key: "k"}, false, fires(1, 1, "hot", 0), LifecycleEdit, 2*minute)
	fired.MessageID = 7
	over, _ := TakeReport(fired, true, ends(1, 6, "cool"), LifecycleEdit, 6*minute)
	unnamed, _ := TakeReport(Alert{}, false, fires(0, 0, "hot", 0), LifecycleEdit, 2*minute)
	unnamed.MessageID = 7
	overUnnamed, _ := TakeReport(unnamed, true, ends(0, 0, "cool"), LifecycleEdit, 6*minute)
	for _, tt := range []struct {
		name   string
		alert  Alert
		hidden bool
		report Report
		at     int64
		action [3]Action // for edit, thread and new
		ring   bool
		note   string
		open   bool
	}{
		{"first", Alert{}, true, fires(1, 1, "hot", 1), 2, [3]Action{ActionStart, ActionStart, ActionStart}, false, "", true},
		{"first, over", Alert{}, true, ends(1, 6, "cool"), 6, [3]Action{ActionStart, ActionStart, ActionStart}, false, "✅ Resolved after 5 min.", false},
		{"first, over, since when is unknown", Alert{}, true, ends(0, 0, "cool"), 6, [3]Action{ActionStart, ActionStart, ActionStart}, false, "✅ Resolved.", false},
		{"repeated", fired, false, fires(1, 4, "hot", 0), 4, [3]Action{}, false, "", true},
		{"repeated, the message was given up", fired, true, fires(1, 4, "hot", 0), 4, [3]Action{ActionStart, ActionStart, ActionStart}, false, "", true},
		{"changed", fired, false, fires(1, 4, "hotter", 0), 4, [3]Action{ActionChange, ActionReply, ActionStart}, false, "", true},
		{"escalated", fired, false, fires(1, 4, "hotter", 1), 4, [3]Action{ActionChange, ActionReply, ActionStart}, true, "", true},
		{"over", fired, false, ends(1, 6, "cool"), 6, [3]Action{ActionChange, ActionReply, ActionStart}, false, "✅ Resolved after 5 min.", false},
		{"over, since when is unknown", unnamed, false, ends(0, 0, "cool"), 6, [3]Action{ActionChange, ActionReply, ActionStart}, false, "✅ Resolved after 4 min.", false},
		{"over at another priority", fired, false, Report{Resolves: true, Priority: 2}, 6, [3]Action{ActionChange, ActionReply, ActionStart}, false, "✅ Resolved after 5 min.", false},
		{"over twice", over, false, ends(1, 6, "cooler"), 7, [3]Action{}, false, "", false},
		{"over twice, since when is unknown", overUnnamed, false, ends(0, 0, "cool"), 7, [3]Action{}, false, "", false},
		{"the start comes again late", over, false, fires(1, 1, "hot", 0), 7, [3]Action{}, false, "", false},
		{"an earlier one comes late", fired, false, fires(0, 1, "x", 0), 7, [3]Action{ActionChange, ActionReply, ActionStart}, false, "", true},
		{"of a time before", over, false, Report{Began: 1}, 7, [3]Action{}, false, "", false},
		{"fires again", over, false, fires(7, 7, "hot", 0), 8, [3]Action{ActionStart, ActionStart, ActionStart}, false, "", true},
		{"fires again, the end was lost", fired, false, fires(7, 7, "hot", 0), 8, [3]Action{ActionStart, ActionStart, ActionStart}, false, "", true},
		{"flaps, and rings, since when is unknown", overUnnamed, false, fires(0, 0, "hot", 1), 8, [3]Action{ActionChange, ActionReply, ActionStart}, true, "It has fired 2 times.", true},
		{"flaps, since when is unknown", overUnnamed, false, fires(0, 0, "hot", 0), 8, [3]Action{ActionChange, ActionReply, ActionStart}, false, "It has fired 2 times.", true},
		{"fires later", over, false, fires(30, 30, "hot", 0), 30, [3]Action{ActionStart, ActionStart, ActionStart}, false, "", true},
		{"over later, the start was lost", over, false, ends(30, 31, "cool"), 31, [3]Action{ActionStart, ActionStart, ActionStart}, false, "✅ Resolved after 1 min.", false},
	} {
		for i, lifecycle := range []Lifecycle{LifecycleEdit, LifecycleThread, LifecycleNew} {
			a, d := TakeReport(tt.alert, !tt.hidden, tt.report, lifecycle, tt.at*minute)
			ring := tt.ring && d.Action != ActionStart
			if d.Action != tt.action[i] || d.Ring != ring || d.Note != tt.note {
				t.Errorf("%s, %s: %+v", tt.name, lifecycle, d)
			}
			if open := a.ClosedAt == 0; open != tt.open {
				t.Errorf("%s, %s: open %v", tt.name, lifecycle, open)
			}
			if a.Key != tt.alert.Key || d.Action != ActionIgnore && a.ChangedAt != tt.at*minute {
				t.Errorf("%s: %+v", tt.name, a)
			}
		}
	}
}

// A wrong clock, of the sender or of the relay until it was set back, silences nothing.
func TestTakeReport_TimesAhead(t *testing.T) {
	fired, d := TakeReport(Alert{Key: "k"}, false, fires(1000, 1000, "hot", 0), LifecycleEdit, 2*minute)
	if fired.MessageID = 7; d.Action != ActionStart || fired.Episode != 0 || fired.BeganAt != 2*minute {
		t.Errorf("began ahead: %+v, %+v", fired, d)
	}
	if a, d := TakeReport(fired, true, fires(1000, 1000, "hot", 0), LifecycleEdit, 3*minute); d.Action != ActionIgnore || a.Episode != 0 {
		t.Errorf("repeated: %+v, %+v", a, d)
	}
	if a, d := TakeReport(fired, true, ends(1, 3, "cool"), LifecycleEdit, 4*minute); d.Action != ActionChange || a.ClosedAt != 4*minute {
		t.Errorf("ended by a sender whose clock is right: %+v, %+v", a, d)
	}
	over, d := TakeReport(fired, true, ends(1000, 2000, "cool"), LifecycleEdit, 6*minute)
	if d.Action != ActionChange || d.Note != "✅ Resolved after 4 min." || over.ClosedAt != 6*minute || over.Episode != 0 {
		t.Errorf("ended ahead: %+v, %+v", over, d)
	}
	if _, d := TakeReport(over, true, ends(1000, 2000, "cool"), LifecycleEdit, 7*minute); d.Action != ActionIgnore {
		t.Errorf("its end, repeated: %+v", d)
	}
	if a, d := TakeReport(over, true, fires(30, 30, "hot", 0), LifecycleEdit, 30*minute); d.Action != ActionStart || a.ClosedAt != 0 {
		t.Errorf("fires when the clock is right: %+v, %+v", a, d)
	}
	over.Episode, over.ClosedAt = 1000*minute, 1000*minute
	if a, d := TakeReport(over, true, fires(30, 30, "hot", 1), LifecycleEdit, 30*minute); d.Action != ActionStart || a.Episode != 30*minute {
		t.Errorf("the relay's clock was set back: %+v, %+v", a, d)
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{59 * time.Second: "59 s", 61 * time.Second: "1 min", 90 * time.Minute: "1 h 30 min", 72 * time.Hour: "3 days"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
}
