package post

import (
	"fmt"
	"testing"
)

// Whatever is known of the attempts at a message, the last thing that its room gets is its last content.
func TestAmend(t *testing.T) {
	attempted := Entry{ID: 1, State: StateRetryWait, FirstAttemptAt: 5}
	edit := func(id int64, change func(*Entry)) Entry {
		e := attempted.EditTo(Content{Body: "earlier"}, 1)
		e.ID = id
		change(&e)
		return e
	}
	waiting, final := edit(3, func(*Entry) {}), edit(2, func(e *Entry) { e.State = StateSent })
	trying := edit(4, func(e *Entry) { e.FirstAttemptAt = 5 })
	for name, test := range map[string]struct {
		message   Entry
		followUps []Entry
		want      string
	}{
		"it waits":              {Entry{ID: 1, State: StateQueued}, nil, "[1] insert false, edits false"},
		"it was attempted":      {attempted, nil, "[1] insert true, edits true"},
		"it was sent":           {Entry{ID: 1, State: StateSent}, []Entry{final}, "[1] insert true, edits true"},
		"an edit waits":         {Entry{ID: 1, State: StateSent}, []Entry{final, waiting, attempted.AsFile(1)}, "[1 3] insert false, edits true"},
		"an edit was attempted": {Entry{ID: 1, State: StateSent}, []Entry{trying}, "[1] insert true, edits true"},
		"it certainly never arrived, an edit waits": {Entry{ID: 1, State: StateQueued}, []Entry{waiting}, "[1 3] insert false, edits true"},
		"it was given up": {Entry{ID: 1, State: StateDead}, nil, "[1] insert false, edits false"},
	} {
		e := Entry{Content: Content{Body: "new"}, Origin: Origin{Resolves: true}, QueuedAt: 9}
		a := Amend(&test.message, &e, test.followUps)
		var ids []int64
		for _, c := range a.Changed {
			ids = append(ids, c.ID)
			if c.Body != "new" || !c.Resolves {
				t.Errorf("%s: %d has %q", name, c.ID, c.Body)
			}
		}
		if got := fmt.Sprintf("%v insert %v, edits %v", ids, a.Insert, a.Edits); got != test.want || e.Kind != KindEdit || e.Target != 1 {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// A note rings nobody, and leaves the priority of a message as it is.
func TestAnnotate(t *testing.T) {
	for state, want := range map[State]int{StateQueued: 2, StateSent: 0} {
		m := Entry{ID: 1, State: state, Content: Content{Body: "b", Priority: 2, GotifyScale: 9, Attachments: "[]"}}
		e, a := Annotate(&m, "Acknowledged.", nil, 7)
		if e.Priority != want || e.Note != "Acknowledged." || e.Attachments != "" || e.Body != "b" {
			t.Errorf("%s: the edit is %+v", state, e)
		}
		if c := a.Changed[0]; c.Priority != 2 || c.GotifyScale != 9 || c.Note != "Acknowledged." || c.Attachments != "[]" {
			t.Errorf("%s: the message is %+v", state, c)
		}
	}
}

// A message that was edited after it was given up, while an attempt was in flight, is edited if that attempt succeeds.
func TestStep_SentLateWithAnEarlierContent_IsEdited(t *testing.T) {
	m := Entry{ID: 1, State: StateDead}
	a := Amend(&m, &Entry{Content: Content{Body: "new"}, QueuedAt: 9}, nil)
	_, others, _ := Step(a.Changed[0], Sent{EventID: "$1"}, 10)
	if len(others) != 1 || others[0].Kind != KindEdit || others[0].Body != "new" {
		t.Errorf("%+v", others)
	}
}
