package service_test

import (
	"strconv"
	"strings"
	"testing"

	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// A page of long messages, of alerts or of what followed a message has few of them, and no page leaves one out.
func TestPages_LongMessages(t *testing.T) {
	relaytest.SQLiteOnly(t)
	r := relaytest.NewRig(t)
	r.Start()
	app := r.NewApp("a", "!a:hs")
	text := strings.Repeat("x", 1_000_000)
	const n = 8
	for i := range n {
		r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: text}, Key: "alert" + strconv.Itoa(i), Change: post.Update})
	}
	first := r.Post(app.Token, "y")
	for range n {
		r.Await(first, post.StateSent)
		r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: text}, Edits: first})
		r.Drained()
	}
	for name, page := range map[string]func(before int64) (size, next int64, err error){
		"messages": func(before int64) (int64, int64, error) {
			p, err := r.Messages(ctx, r.Admin, service.Filter{Before: before, Limit: service.MaxPage})
			return int64(len(p.Messages)), p.Next, err
		},
		"alerts": func(before int64) (int64, int64, error) {
			all, next, err := r.OpenAlerts(ctx, r.Admin, before, service.MaxPage)
			return int64(len(all)), next, err
		},
		"history": func(before int64) (int64, int64, error) {
			all, next, err := r.History(ctx, r.Admin, first, before, service.MaxPage)
			return int64(len(all)), next, err
		},
	} {
		want := int64(n)
		if name == "messages" {
			want++ // the one that was edited
		}
		all, pages := int64(0), 0
		for before := int64(0); pages == 0 || before != 0; pages++ {
			size, next, err := page(before)
			if err != nil || size == 0 || size > 6 {
				t.Fatalf("%s: a page of %d, %v", name, size, err)
			}
			all, before = all+size, next
		}
		if all != want || pages != 2 {
			t.Errorf("%s: %d on %d pages, want %d on 2", name, all, pages, want)
		}
	}
}
