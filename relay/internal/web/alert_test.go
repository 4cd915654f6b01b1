package web

import (
	"context"
	"strconv"
	"testing"

	"slipway/relay/internal/post"
)

// An open alert is on the overview until it is over; its page shows its history and acknowledges it.
func TestAlertPages(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	app := b.app("alpha", room)
	say := func(title string, change post.Change) string {
		t.Helper()
		a, err := b.service.Accept(context.Background(), post.Draft{Token: app.Token, Content: post.Content{Title: title, Body: "**text**"}, Key: "k", Change: change, Source: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return "/ui/messages/" + strconv.FormatInt(a.ID, 10)
	}
	page := say("Disk full", post.Update)
	b.until(page, "accepted it.")
	say("Disk fuller", post.Update)
	b.get("/ui/")
	b.want(200, "Open alerts", "Disk fuller", "-acknowledged by")
	b.until(page, "Edited")
	b.want(200, "and is open.", "History", "Acknowledge", `<span class="muted">text</span>`)
	b.post(page + "/acknowledge")
	b.want(200, "The alert is acknowledged", "Acknowledged by admin.", "-Nobody has")
	b.post(page + "/acknowledge")
	b.want(409, `role="alert"`)
	b.get("/ui/")
	b.want(200, "acknowledged by admin")
	say("Disk is fine", post.Resolve)
	b.get("/ui/")
	b.want(200, "-Open alerts", `<strong>Disk is fine</strong> <span class="text">✅ Resolved after `)
	b.get(page)
	b.want(200, "The alert ended", "Resolved after")
}
