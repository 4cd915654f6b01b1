package web

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

func TestManyMessages(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	app := b.app("a", room)
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassDead, Reason: "the homeserver does not accept the event"})
	for _, title := range []string{"one", "two", "three"} {
		b.until(b.send(app, title, "text"), "Redeliver")
	}
	b.hs.FailIn(room, nil)
	b.get("/ui/messages")
	b.want(200, "-Redeliver all of these", "-Withdraw all of these")
	b.get("/ui/messages?state=sent")
	b.want(200, "-Withdraw all of these")
	today := time.Now().UTC()
	for from, want := range map[time.Time]string{today: "three", today.AddDate(0, 0, 1): "-three"} {
		b.get("/ui/messages?from=" + from.Format(time.DateOnly))
		b.want(200, want, `value="`+from.Format(time.DateOnly)+`"`)
	}
	b.get("/ui/messages?to=" + today.AddDate(0, 0, -1).Format(time.DateOnly))
	b.want(200, "No message matches")
	b.get("/ui/messages?to=" + today.Format(time.DateOnly))
	b.want(200, "three")

	b.get("/ui/messages?state=dead&q=two")
	b.want(200, "/ui/messages/all?q=two&amp;state=dead&amp;do=redeliver")
	b.get("/ui/messages/all?q=two&state=dead&do=redeliver")
	b.want(200, "Redeliver 1 message?")
	b.post("/ui/messages/all?q=two&state=dead&do=redeliver")
	b.want(200, "The messages are in the queue again.")
	b.until("/ui/messages?state=sent", "two")
	b.get("/ui/messages/all?state=dead&do=withdraw")
	b.want(200, "Withdraw 2 messages?")
	b.post("/ui/messages/all?state=dead&do=withdraw")
	b.want(200, "The messages are withdrawn.")
	b.get("/ui/messages?state=cancelled")
	b.want(200, "one", "three")
	b.post("/ui/messages/all?state=sent&do=withdraw")
	b.want(400)
	b.post("/ui/messages/all?do=redeliver")
	b.want(400)
}

func TestTestMessage(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.app("a", room)
	b.get("/ui/applications/1")
	b.post("/ui/applications/1/test", "title", "Hello", "message", "It **works**", "priority", "2")
	b.want(200, "<h1>Hello</h1>", `<span class="state sent">sent</span>`, "<strong>works</strong>", "2 · max", "Open in Matrix")
	if sent := b.hs.Sent(); len(sent) != 1 || sent[0].RoomID != room {
		t.Errorf("sent %v", sent)
	}
	b.get("/ui/applications/1")
	b.post("/ui/applications/1/test", "title", "", "message", " ")
	b.want(400, "A message is required.")
	b.until("/ui/", "1 sent, 0 dead") // results are counted with the next commit
	b.want(200, "Last 24 hours", `class="sent"`)
}

func TestMessagePages(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	app, held := b.app("alpha", room), b.app("beta", "!closed:example.org")
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassDead, Code: "M_BAD_JSON", Reason: "the homeserver does not accept the event"})
	b.hs.FailIn("!closed:example.org", &matrix.SendError{Class: matrix.ClassBlock, Code: "M_FORBIDDEN", Reason: "the bot may not write in the room"})
	dead := b.send(app, "Broken", "one")
	blocked := b.send(held, "Stuck", "two")
	b.until(dead, "Redeliver")
	b.until("/ui/messages", "blocked")
	b.want(200, "Broken", "Stuck", `<span class="state dead">dead</span>`, "The bot may not write in the room.")
	b.get("/ui/applications")
	b.want(200, `<span class="state blocked">blocked</span><p class="hint">The bot may not write in the room.</p>`)
	b.get("/ui/messages?state=dead")
	b.want(200, "Broken", "-Stuck")
	b.get("/ui/messages?state=waiting")
	b.want(200, "-Broken", "Stuck")
	b.get("/ui/messages?q=ONE")
	b.want(200, "Broken", "-Stuck")
	b.get("/ui/messages?app=2")
	b.want(200, "-Broken", "Stuck")
	b.get("/ui/messages?q=nothing+like+it")
	b.want(200, "No message matches")
	b.get("/ui/")
	b.want(200, "Needs a decision", "Blocked rooms", "beta")

	b.get(dead)
	b.want(200, "The homeserver does not accept the event.", "M_BAD_JSON", "Redeliver")
	b.hs.FailIn(room, nil)
	b.post(dead + "/redeliver")
	b.want(200, "in the queue again")
	b.until(dead, "Withdraw…")
	b.want(200, `<span class="state sent">sent</span>`, "-Redeliver")
	b.post(dead + "/redeliver")
	b.want(409, `role="alert"`)
	b.get(dead + "/withdraw")
	b.want(200, "from its room?")
	b.post(dead + "/withdraw")
	b.want(200, "it is being removed")
	b.until(dead, "later removed from the room")
	b.get(blocked)
	b.want(200, "waits until the cause is fixed", "The bot may not write in the room.")
	b.post(blocked + "/withdraw")
	b.want(200, "The message is withdrawn", "withdrawn before it was sent")
	b.get("/ui/messages/9999")
	b.want(404)
}

func TestLongMessage(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	path := b.send(b.app("a", room), "Long", strings.Repeat("word ", 100_000))
	b.until(path, "The homeserver (the Matrix server that the relay sends to) accepted it.")
	b.want(200, "Too long for one Matrix message: its beginning is sent, and the whole text as a file.")
}

func TestLongMessage_Dead(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassDead, Code: "M_BAD_JSON", Reason: "the homeserver does not accept the event"})
	path := b.send(b.app("a", room), "Long", strings.Repeat("word ", 100_000))
	b.until(path, "The relay has stopped trying.")
	b.want(200, "Too long for one Matrix message")
	b.until("/ui/", "1 message is dead")
	b.want(200, `<a href="/ui/messages?state=dead">`)
}

func TestRemovalThatFails(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	message := b.send(b.app("a", room), "Stays", "text")
	b.until(message, "Withdraw…")
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassBlock, Reason: "the bot may not remove events"})
	b.post(message + "/withdraw")
	b.want(200, "it is being removed")
	b.until(message, "The event could not be removed from the room: the bot may not remove events.")
	b.get("/ui/messages")
	b.want(200, "could not be removed")
	b.hs.FailIn(room, nil)
	b.post(message + "/withdraw")
	b.until(message, "later removed from the room")
	b.want(200, "-could not be removed")
}

func TestRemovalThatWaits(t *testing.T) {
	for retention, kept := range map[time.Duration]string{
		0:               "Its text stays here in the relay.",
		720 * time.Hour: "Its text stays here in the relay until history.retention (30 days) is over.",
	} {
		b := newBrowserWith(t, func(o *Options) { o.Retention = retention })
		b.admin()
		message := b.send(b.app("a", room), "Goes", "text")
		b.until(message, "Withdraw…")
		b.want(200, "-Its text stays")
		b.get(message + "/withdraw")
		b.want(200, kept)
		release := b.hs.Hold()
		b.post(message + "/withdraw")
		b.want(200, "is being removed from the room", "data-live", "-Withdraw…", "-Withdraw<", kept)
		release()
		b.until(message, "later removed from the room")
		b.want(200, kept, "-data-live", "-being removed from the room")
	}
}

func TestDeliveredAtLast(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassRetry, Reason: "the homeserver failed"})
	message := b.send(b.app("a", room), "Late", "text")
	b.until(message, "The homeserver failed.")
	b.hs.FailIn(room, nil)
	b.until(message, "The homeserver (the Matrix server that the relay sends to) accepted it.")
	b.want(200, "-The homeserver failed.")
}

func TestPaging(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	app := b.app("a", room)
	for range 60 {
		if _, err := b.service.Accept(t.Context(), post.Draft{Token: app.Token, Content: post.Content{Body: "m"}}); err != nil {
			t.Fatal(err)
		}
	}
	b.get("/ui/messages?app=1")
	b.want(200, ">Older<", "-Newest")
	older := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(b.page)
	if older == nil || strings.Count(b.page, `href="/ui/messages/`) != 50 {
		t.Fatalf("%d messages on the first page", strings.Count(b.page, `href="/ui/messages/`))
	}
	b.get(strings.ReplaceAll(older[1], "&amp;", "&"))
	b.want(200, "-Older", "Newest")
	if n := strings.Count(b.page, `href="/ui/messages/`); n != 10 {
		t.Errorf("%d messages on the second page", n)
	}
}

func TestMessage_Attachments(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.app("a", room)
	a, err := b.service.Attach(t.Context(), 1, strings.NewReader("content"), 100)
	if err != nil {
		t.Fatal(err)
	}
	a.Name = "<b>.txt"
	v, _ := relaytest.Administrator(b.service)
	m, err := b.service.AcceptFor(t.Context(), v, 1, post.Draft{Content: post.Content{Body: "m"}, Files: []post.Attachment{a}})
	if err != nil {
		t.Fatal(err)
	}
	b.get(fmt.Sprintf("/ui/messages/%d", m.ID))
	if !strings.Contains(b.page, "&lt;b&gt;.txt (text/plain, 7 B)") {
		t.Errorf("the page doesn't name the attachment: %s", b.page)
	}
}
