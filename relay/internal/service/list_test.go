package service_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

func TestMessagesAreListed(t *testing.T) {
	r := relaytest.NewRig(t)
	user := r.NewUser("user")
	mine, err := r.CreateApplication(ctx, user, account.ApplicationInput{Name: p("mine"), Room: p("!m:hs")})
	if err != nil {
		t.Fatal(err)
	}
	other := r.NewApp("other", "!o:hs")
	fault := relaytest.Fails(matrix.ClassDead)
	blocked := relaytest.Fails(matrix.ClassBlock)
	r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
		switch {
		case strings.Contains(string(out.Content), "wrong"):
			return &fault
		case out.RoomID == "!o:hs":
			return &blocked
		}
		return nil
	}
	r.Start()
	var ids []int64
	for i := range 7 {
		ids = append(ids, r.Post(mine.Token, fmt.Sprintf("100%% of %d", i)))
	}
	bad := r.Post(mine.Token, "wrong")
	stuck := r.Post(other.Token, "stuck")
	r.Await(bad, post.StateDead)
	r.Await(stuck, post.StateBlocked)
	r.Await(ids[6], post.StateSent)
	tests := []struct {
		name string
		v    account.Principal
		f    service.Filter
		want []int64
	}{
		{"a page", r.Admin, service.Filter{Limit: 2}, []int64{stuck, bad}},
		{"the next page", r.Admin, service.Filter{Limit: 2, Before: bad}, []int64{ids[6], ids[5]}},
		{"of a user", user, service.Filter{Limit: 2}, []int64{bad, ids[6]}},
		{"of an application", account.Principal{ApplicationID: other.Application.ID}, service.Filter{}, []int64{stuck}},
		{"one application", r.Admin, service.Filter{ApplicationID: other.Application.ID}, []int64{stuck}},
		{"somebody else's application", user, service.Filter{ApplicationID: other.Application.ID}, nil},
		{"dead", r.Admin, service.Filter{States: []post.State{post.StateDead}}, []int64{bad}},
		{"blocked or dead", r.Admin, service.Filter{States: []post.State{post.StateDead, post.StateBlocked}}, []int64{stuck, bad}},
		{"on their way, not blocked", r.Admin, service.Filter{States: []post.State{post.StateQueued, post.StateRetryWait}}, nil},
		{"sent", r.Admin, service.Filter{States: []post.State{post.StateSent}, Limit: 1}, []int64{ids[6]}},
		{"text", r.Admin, service.Filter{Text: "100% OF 3"}, []int64{ids[3]}},
		{"text with a wildcard", r.Admin, service.Filter{Text: "wr_ng"}, nil},
		{"later", r.Admin, service.Filter{Since: time.Now().Add(time.Hour)}, nil},
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
	if _, err := r.Messages(ctx, account.Principal{}, service.Filter{}); refusal.KindOf(err) != refusal.KindForbidden {
		t.Errorf("nobody: %v", err)
	}
	if _, err := r.Message(ctx, user, stuck); refusal.KindOf(err) != refusal.KindNotFound {
		t.Errorf("somebody else's message: %v", err)
	}
	hours, err := r.Hours(ctx, r.Admin)
	if err != nil || len(hours) != 24 {
		t.Errorf("%d hours, %v", len(hours), err)
	}
}
