package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMessagesAreListed(t *testing.T) {
	r := newRig(t)
	user := r.user("user")
	mine, err := r.CreateApplication(ctx, user, ApplicationInput{Name: p("mine"), Room: p("!m:hs")})
	if err != nil {
		t.Fatal(err)
	}
	other := r.app("other", "!o:hs")
	fault := class(ClassDead)
	blocked := class(ClassBlock)
	r.hs.script = func(out Outgoing, _ int) *answer {
		switch {
		case strings.Contains(string(out.Content), "wrong"):
			return &fault
		case out.RoomID == "!o:hs":
			return &blocked
		}
		return nil
	}
	r.run()
	var ids []int64
	for i := range 7 {
		ids = append(ids, r.send(mine.Token, fmt.Sprintf("100%% of %d", i)))
	}
	bad := r.send(mine.Token, "wrong")
	stuck := r.send(other.Token, "stuck")
	r.await(bad, StateDead)
	r.await(stuck, StateBlocked)
	r.await(ids[6], StateSent)
	tests := []struct {
		name string
		v    Viewer
		f    MessageFilter
		want []int64
	}{
		{"a page", r.admin, MessageFilter{Limit: 2}, []int64{stuck, bad}},
		{"the next page", r.admin, MessageFilter{Limit: 2, Before: bad}, []int64{ids[6], ids[5]}},
		{"of a user", user, MessageFilter{Limit: 2}, []int64{bad, ids[6]}},
		{"of an application", Viewer{ApplicationID: other.Application.ID}, MessageFilter{}, []int64{stuck}},
		{"one application", r.admin, MessageFilter{ApplicationID: other.Application.ID}, []int64{stuck}},
		{"somebody else's application", user, MessageFilter{ApplicationID: other.Application.ID}, nil},
		{"dead", r.admin, MessageFilter{States: []State{StateDead}}, []int64{bad}},
		{"blocked or dead", r.admin, MessageFilter{States: []State{StateDead, StateBlocked}}, []int64{stuck, bad}},
		{"on their way, not blocked", r.admin, MessageFilter{States: []State{StateQueued, StateRetryWait}}, nil},
		{"sent", r.admin, MessageFilter{States: []State{StateSent}, Limit: 1}, []int64{ids[6]}},
		{"text", r.admin, MessageFilter{Text: "100% OF 3"}, []int64{ids[3]}},
		{"text with a wildcard", r.admin, MessageFilter{Text: "wr_ng"}, nil},
		{"later", r.admin, MessageFilter{Since: time.Now().Add(time.Hour)}, nil},
	}
	for _, test := range tests {
		page, err := r.Messages(ctx, test.v, test.f)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		var got []int64
		for _, m := range page.Messages {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if _, err := r.Messages(ctx, Viewer{}, MessageFilter{}); KindOf(err) != KindForbidden {
		t.Errorf("nobody: %v", err)
	}
	if _, err := r.Message(ctx, user, stuck); KindOf(err) != KindNotFound {
		t.Errorf("somebody else's message: %v", err)
	}
	hours, err := r.Hours(ctx, r.admin)
	if err != nil || len(hours) != 24 {
		t.Errorf("%d hours, %v", len(hours), err)
	}
}

// TestHoursAfterACrash: what was counted in the last second before is counted again from the messages.
func TestHoursAfterACrash(t *testing.T) {
	r := newRig(t)
	token := r.app("a", "!a:hs").Token
	r.run()
	for range 5 {
		r.await(r.send(token, "m"), StateSent)
	}
	r.crash()
	r.exec(`DELETE FROM stats`) // as if the process had ended before the counts were written
	r.open()
	hours, err := r.Hours(ctx, r.admin)
	if err != nil {
		t.Fatal(err)
	}
	var accepted, sent int64
	for _, h := range hours {
		accepted, sent = accepted+h.Accepted, sent+h.Sent
	}
	if app, _ := r.Application(ctx, r.admin, 1); accepted != 5 || sent != 5 || app.Sent != 5 {
		t.Errorf("the hours have %d accepted and %d sent, the application %d sent; want 5", accepted, sent, app.Sent)
	}
}
