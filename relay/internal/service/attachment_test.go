package service_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// Attachments have names and types, and empty ones, which no homeserver takes, are left out.
func TestAttachments(t *testing.T) {
	r := relaytest.NewRig(t, func(o *service.Options) { o.Limits.MaxAttachments = 1000 })
	app := r.NewApp("a", "!a:hs")
	var all []post.Attachment
	for _, content := range []string{"", "text", "%PDF-1.7"} {
		a, err := r.Attach(context.Background(), 1, strings.NewReader(content), 10)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	all[1].Name = "../a.txt"
	m := r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "m"}, Files: all})
	got := m.Files()
	if len(got) != 2 || got[0].Name != "a.txt" || got[0].Type != "text/plain" || got[0].Size != 4 || got[1].Name != "attachment.pdf" || got[1].Type != "application/pdf" {
		t.Errorf("attachments: %+v", got)
	}
	if _, err := r.Attach(context.Background(), 1, strings.NewReader("eleven bytes"), 10); refusal.KindOf(err) != refusal.KindTooLarge {
		t.Errorf("a large one: %v", err)
	}
	var kept int
	r.Exec("SELECT count(*) FROM attachments", &kept)
	if kept != 3 {
		t.Errorf("%d contents are kept, want that of 3", kept)
	}
}

// All attachments that are stored have a bound together.
func TestAttachments_TooManyWait(t *testing.T) {
	r := relaytest.NewRig(t, func(o *service.Options) { o.Limits.MaxAttachments = 10 })
	taken := 0
	for ; taken < 100; taken++ {
		_, err := r.Attach(context.Background(), 1, strings.NewReader("ten bytes."), 10)
		if err == nil {
			continue
		}
		if e := refused(err); e.Kind != refusal.KindUnavailable || e.RetryAfter == 0 {
			t.Errorf("refused with %v", err)
		}
		break
	}
	if taken != 50 {
		t.Errorf("%d are taken, want 50", taken)
	}
}

// One application leaves others room for attachments, and has its own again when it withdraws a message.
func TestAttachments_ShareOfAnApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Limits.MaxAttachments = 10 })
		post := func(app account.IssuedToken) (id int64, err error) {
			time.Sleep(time.Second) // until it is counted again
			a, err := r.Attach(t.Context(), app.Application.ID, strings.NewReader("ten bytes."), 10)
			if err != nil {
				return 0, err
			}
			return r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "m"}, Files: []post.Attachment{a}, Later: time.Now().Add(24 * time.Hour)}).ID, nil
		}
		greedy, other := r.NewApp("a", "!a:hs"), r.NewApp("b", "!a:hs")
		var last int64
		taken := 0
		for ; taken < 50; taken++ {
			id, err := post(greedy)
			if err != nil {
				if refusal.KindOf(err) != refusal.KindUnavailable || !strings.Contains(err.Error(), "of this application") {
					t.Error(err)
				}
				break
			}
			last = id
		}
		if taken != 25 {
			t.Errorf("one application has %d of 50", taken)
		}
		if _, err := post(other); err != nil {
			t.Errorf("another: %v", err)
		}
		for range 2 {
			r.Withdraw(last)
			last--
		}
		if _, err := post(greedy); err != nil {
			t.Errorf("after two were withdrawn: %v", err)
		}
	})
}
