package delivery

import (
	"strings"
	"testing"

	"slipway/relay/internal/post"
)

func TestAdded_Take(t *testing.T) {
	message := func(id int64, change func(*post.Entry)) *post.Entry {
		e := &post.Entry{ID: id, Origin: post.Origin{ApplicationID: 1}, Content: post.Content{Body: "x"}}
		change(e)
		return e
	}
	as := func(*post.Entry) {}
	from := post.FromApplication{Sender: "s", Mention: "@o:hs", Choice: "owner", Deleted: true, Barred: true}
	for _, tt := range []struct {
		name        string
		message     *post.Entry
		edits       int64
		taken, kept bool
	}{
		{"follows the page", message(6, as), 3, true, true},
		{"was in the page", message(5, as), 3, true, false},
		{"another change", nil, 3, false, false},
		{"after an edit", message(6, as), 4, false, false},
		{"of another application", message(6, func(e *post.Entry) { e.ApplicationID = 2 }), 3, false, false},
		{"large", message(6, func(e *post.Entry) { e.Body = strings.Repeat("x", maxAdded) }), 3, false, false},
	} {
		var a added
		a.follow([]*post.Entry{message(5, func(e *post.Entry) { e.FromApplication = from })}, 3)
		if taken := a.take(tt.message, tt.edits); taken != tt.taken || len(a.entries) == 1 != tt.kept {
			t.Errorf("%s: taken %v, %d kept", tt.name, taken, len(a.entries))
		}
		if !tt.kept {
			continue
		}
		if e := a.entries[0]; e == tt.message || e.Body != "x" || e.FromApplication != from {
			t.Errorf("%s: kept %+v", tt.name, e)
		}
	}
}

// A room never has more messages that were sent and aren't committed than Pending and a page allow.
func TestAdded_TakesNoMoreThanAPage(t *testing.T) {
	var a added
	one := func(id int64) *post.Entry { return &post.Entry{ID: id} }
	if a.take(one(1), 0) {
		t.Error("one is taken before the room was read")
	}
	a.follow([]*post.Entry{one(1), one(2)}, 0)
	for id := int64(3); id <= pageEntries; id++ {
		if !a.take(one(id), 0) {
			t.Fatalf("message %d is not taken", id)
		}
	}
	if a.take(one(pageEntries+1), 0) {
		t.Error("more than a page is taken")
	}
	if a.follow(nil, 0); !a.take(one(pageEntries+1), 0) {
		t.Error("none is taken after the room was read again")
	}
}
