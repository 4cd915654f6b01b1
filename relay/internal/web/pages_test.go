package web

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/outbox"
	"slipway/relay/internal/relaytest"
)

var tokenField = regexp.MustCompile(`<code class="token"[^>]*>([^<]+)</code>`)

// token reads the token off the page at hand.
func (b *browser) token() string {
	b.Helper()
	m := tokenField.FindStringSubmatch(b.page)
	if m == nil {
		b.Fatalf("%s shows no token", b.at)
	}
	return m[1]
}

func (b *browser) works(token string) bool {
	_, err := b.service.TokenViewer(b.Context(), token)
	return err == nil
}

// until loads a page again and again until it shows text. Tries are counted, not seconds, so that a busy machine has the
// same ones.
func (b *browser) until(path, text string) {
	b.Helper()
	for range 500 {
		if b.get(path); strings.Contains(b.page, text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatalf("%s never shows %q:\n%s", path, text, b.page)
}

func TestApplicationLife(t *testing.T) {
	b := newBrowser(t)
	b.hs.Has(matrix.RoomInfo{RoomID: "!secret:example.org", Name: "Family", Joined: true, Encrypted: true})
	b.admin()
	b.want(200, "Create the first application", "Relay v1.2.3")
	b.get("/ui/applications/new")
	b.want(200, "Operations · !room:example.org", "Family · !secret:example.org · encrypted")
	form := []string{"name", "backup", "target", "joined", "joined", room, "default_priority", "1", "priority_scale", "auto"}
	b.post("/ui/applications/new", form...)
	b.want(200, "is ready", "curl "+b.base+"/message -d token=", b.base+"/hook/github/A", "may write there", "-The bot invites")
	token := b.token()
	if !b.works(token) {
		t.Error("the token on the page does not work")
	}
	b.post("/ui/applications/new", form...)
	b.want(409, "an application of this name.", `value="backup"`, `aria-invalid="true"`, `“backup” exists already; <a href="/ui/applications/1">make a new token on its page</a>`)
	b.post("/ui/applications/new", "name", "x", "target", "other", "room_id", "nonsense", "priority_scale", "auto")
	b.want(400, `role="alert"`, `value="nonsense"`)
	b.post("/ui/applications/new", "name", "x", "target", "other", "room_id", "", "priority_scale", "auto")
	b.want(400, "Choose a room.", `<details class="more">`)
	b.post("/ui/applications/new", "name", "x", "target", "new", "critical_retry", "1s")
	b.want(400, "The time is 0 or from 30s to", `<details class="more" open>`)

	b.get("/ui/applications/1")
	b.want(200, "<h1>backup</h1>", "-"+token, b.base+"/hook/github/TOKEN", "authorization: {credentials: TOKEN}", "ntfy://:TOKEN@"+strings.TrimPrefix(b.base, "http://")+"/alerts?scheme=http")
	b.post("/ui/applications/1", "name", "renamed", "room_id", room, "default_priority", "-1", "priority_scale", "gotify", "rate_limit", "30", "strict_compatibility", "true")
	b.want(200, "Saved.", "<h1>renamed</h1>", `value="30"`)
	b.post("/ui/applications/1", "name", "renamed", "rate_limit", "many", "priority_scale", "auto")
	b.want(400, "must be a whole number.")
	b.post("/ui/applications/1/token", "grace", "1h")
	second := b.token()
	b.want(200, "stays valid for", "-"+token)
	if len(second) != 15 || !b.works(second) || !b.works(token) {
		t.Errorf("second token %q: works %v, the first %v", second, b.works(second), b.works(token))
	}
	b.post("/ui/applications/1/token", "grace", "24h")
	b.want(200, "stays valid for 24 h")
	b.get("/ui/applications/1")
	b.want(200, "stays valid for 24 h")
	v, err := b.service.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.service.RegenerateToken(t.Context(), v, 1, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond)
	b.get("/ui/applications/1")
	b.want(200, "Created", "-The previous token")
	b.post("/ui/applications/1/token", "grace", "0s")
	b.want(200, "no longer valid")
	if b.works(second) || b.works(token) {
		t.Error("an old token still works")
	}
	b.get("/ui/applications/1/delete")
	b.want(200, "Delete “renamed”?")
	b.post("/ui/applications/1/delete")
	b.want(200, "Deleted.", "No application yet")
	b.get("/ui/applications/1")
	b.want(404)
}

// TestSecretOfAnApplication: an empty field keeps the secret, and no page shows it.
func TestSecretOfAnApplication(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.app("a", room)
	b.get("/ui/applications/1")
	b.want(200, "Webhook secret", "-Remove the webhook secret")
	b.post("/ui/applications/1", "name", "a", "hook_secret", "too short")
	b.want(400, "A secret has 16 to 256 characters", "-too short")
	b.post("/ui/applications/1", "name", "a", "hook_secret", "sixteen and more characters")
	b.want(200, "Saved.", "Remove the webhook secret", "-sixteen and more")
	b.post("/ui/applications/1", "name", "b", "hook_secret", "")
	b.want(200, "Saved.", "Remove the webhook secret")
	b.post("/ui/applications/1", "name", "b", "hook_secret", "", "remove_secret", "on")
	b.want(200, "Saved.", "-Remove the webhook secret")
}

// TestTypedRoom: a room that was typed is meant, though its radio button is not chosen.
func TestTypedRoom(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.get("/ui/applications/new")
	b.want(200, "Shown before the title in rooms that several applications send to.", `data-selects="target-other"`)
	b.post("/ui/applications/new", "name", "typed", "target", "new", "room_id", " "+room+" ", "priority_scale", "auto")
	b.want(200, "is ready", "may write there")
	b.get("/ui/applications/1")
	b.want(200, `value="`+room+`"`)
}

// TestLooksOfAnApplication: description, format, sender and image.
func TestLooksOfAnApplication(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.app("a", room)
	b.get("/ui/applications/1")
	b.post("/ui/applications/1", "name", "a", "room_id", room, "priority_scale", "auto", "description", "Nightly <b>", "default_format", "plain", "show_sender", "always", "mention", "@anna:example.org, @bob:example.org")
	b.want(200, "Nightly &lt;b&gt;", `<option value="plain" selected>`, `<option value="always" selected>`, `value="@anna:example.org @bob:example.org"`, "-alert nobody", `<option value="0s" selected>stops working at once`)
	if err := b.service.Presence(t.Context(), room, relaytest.AdminMatrixID, false); err != nil {
		t.Fatal(err)
	}
	b.post("/ui/applications/1", "name", "a", "room_id", room, "priority_scale", "auto", "description", "Nightly <b>", "default_format", "plain", "show_sender", "always", "mention", "owner")
	b.want(200, "messages of priority 2 alert nobody")
	upload := func(data string) {
		t.Helper()
		var form bytes.Buffer
		m := multipart.NewWriter(&form)
		_ = m.WriteField("csrf", csrfField.FindStringSubmatch(b.page)[1])
		if file, err := m.CreateFormFile("image", "a.gif"); err == nil && data != "" {
			_, _ = file.Write([]byte(data))
		}
		m.Close()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+"/ui/applications/1/image", &form)
		if err == nil {
			req.Header.Set("Content-Type", m.FormDataContentType())
		}
		b.do(req, err)
	}
	upload("<svg onload=alert(1)>")
	b.want(400, "must be PNG, JPEG, GIF or WebP", "-appimage")
	gif := "GIF89a\x01\x00\x01\x00"
	upload(gif)
	b.want(200, "Saved.", "appimage")
	b.get("/ui/applications/1/image")
	if b.want(200); b.page != gif || b.header.Get("Content-Type") != "image/gif" {
		t.Errorf("the image is %q, %s", b.page, b.header.Get("Content-Type"))
	}
	b.get("/ui/applications")
	b.want(200, "appimage", "Nightly &lt;b&gt;")
	b.get("/ui/applications/1")
	upload("")
	b.want(200, "Saved.", "-appimage")
}

// TestManyMessages: all messages that a filter selects are delivered again or withdrawn, after a question.
func TestManyMessages(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	app := b.app("a", room)
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassDead, Reason: "the homeserver does not accept the event"})
	for _, title := range []string{"one", "two", "three"} {
		b.send(app, title, "text")
	}
	b.hs.FailIn(room, nil)
	b.get("/ui/messages")
	b.want(200, "-Deliver all of these again", "-Withdraw all of these")
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
	b.want(200, "/ui/messages/all?q=two&amp;state=dead&amp;do=retry")
	b.get("/ui/messages/all?q=two&state=dead&do=retry")
	b.want(200, "Deliver 1 message again?")
	b.post("/ui/messages/all?q=two&state=dead&do=retry")
	b.want(200, "The messages are in the queue again.")
	b.until("/ui/messages?state=sent", "two")
	b.get("/ui/messages/all?state=dead&do=cancel")
	b.want(200, "Withdraw 2 messages?")
	b.post("/ui/messages/all?state=dead&do=cancel")
	b.want(200, "The messages are withdrawn.")
	b.get("/ui/messages?state=cancelled")
	b.want(200, "one", "three")
	b.post("/ui/messages/all?state=sent&do=cancel")
	b.want(400)
	b.post("/ui/messages/all?do=retry")
	b.want(400)
}

// A warning of the checks is neither passed nor failed.
func TestCheck_Warning_IsShownAsOne(t *testing.T) {
	b := newBrowserWith(t, func(o *Options) {
		o.Doctor.NewRooms = func() (bool, string) { return false, "there is no pickle key" }
	})
	b.admin()
	b.get("/ui/rooms?check")
	b.want(200, `<li class="warn"><span class="hidden">Warning: </span>The rooms that the bot makes are not encrypted, because there is no pickle key.`, "Passed: ", "-Failed: ")
}

func TestRoomsAreSaid(t *testing.T) {
	b := newBrowser(t)
	b.hs.Has(matrix.RoomInfo{RoomID: "!secret:example.org", Joined: true, Writable: true, Encrypted: true})
	b.hs.Has(matrix.RoomInfo{RoomID: "!read:example.org", Joined: true})
	b.admin()
	for room, want := range map[string]string{
		"!secret:example.org": "and may write there", "!read:example.org": "may not write", "!other:example.org": "is not in this room",
	} {
		b.get("/ui/applications/new")
		b.post("/ui/applications/new", "name", "to "+room, "target", "other", "room_id", room, "priority_scale", "auto")
		b.want(200, want)
	}
	b.get("/ui/rooms?check")
	b.want(200, "Check results", "which is encrypted, and may write there", "Failed:", "Operations", "@relay:example.org")
	b.get("/ui/applications/new")
	b.post("/ui/applications/new", "name", "made", "target", "new", "priority_scale", "auto")
	b.want(200, "is ready", "The bot invites", "Accept the invitation")
	b.hs.Fail(&matrix.SendError{Class: matrix.ClassAway, Reason: "the homeserver is away"})
	b.get("/ui/applications/new")
	b.want(200, "Room lookup failed")
}

func TestTestMessage(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.app("a", room)
	b.get("/ui/applications/1")
	b.post("/ui/applications/1/test", "title", "Hello", "message", "It **works**", "priority", "2")
	b.want(200, "<h1>Hello</h1>", "delivered", "<strong>works</strong>", "2 · highest", "Open in Matrix")
	if sent := b.hs.Sent(); len(sent) != 1 || sent[0].RoomID != room {
		t.Errorf("sent %v", sent)
	}
	b.get("/ui/applications/1")
	b.post("/ui/applications/1/test", "title", "", "message", " ")
	b.want(400, "A message is required.")
	b.until("/ui/", "1 delivered, 0 given up") // results are counted with the next commit
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
	b.get("/ui/messages")
	b.want(200, "Broken", "Stuck", "given up", "blocked", "The bot may not write in the room.")
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
	b.want(200, "The homeserver does not accept the event.", "M_BAD_JSON", "Deliver again")
	b.hs.FailIn(room, nil)
	b.post(dead + "/redeliver")
	b.want(200, "in the queue again")
	b.until(dead, "Remove from the room")
	b.want(200, "delivered", "-Deliver again")
	b.post(dead + "/redeliver")
	b.want(409, `role="alert"`)
	b.get(dead + "/cancel")
	b.want(200, "from its room?")
	b.post(dead + "/cancel")
	b.want(200, "it is being removed")
	b.until(dead, "later removed from the room")
	b.get(blocked)
	b.want(200, "waits until the cause is fixed", "The bot may not write in the room.")
	b.post(blocked + "/cancel")
	b.want(200, "The message is withdrawn", "withdrawn before it was delivered")
	b.get("/ui/messages/9999")
	b.want(404)
}

// TestLongMessage: the page describes how a message too long for one event was sent.
func TestLongMessage(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	path := b.send(b.app("a", room), "Long", strings.Repeat("word ", 100_000))
	b.until(path, "The homeserver (the Matrix server that the relay sends to) accepted it.")
	b.want(200, "Too long for one Matrix message: sent as", "with the full text as a file")
}

// A dead message never promises that it was sent.
func TestLongMessage_Dead(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassDead, Code: "M_BAD_JSON", Reason: "the homeserver does not accept the event"})
	path := b.send(b.app("a", room), "Long", strings.Repeat("word ", 100_000))
	b.until(path, "The relay has stopped trying.")
	b.want(200, "Too long for one Matrix message: it would be sent as", "with the full text as a file")
	b.until("/ui/", "1 message was given up in the last 24 hours")
	b.want(200, `<a href="/ui/messages?state=dead">`)
}

// Messages that wait for the homeserver's rate limit are no good state.
func TestRateLimited(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassWait, RetryAfter: time.Minute, Reason: "too fast"})
	b.send(b.app("a", room), "t", "m")
	b.until("/ui/", "Waiting for the homeserver&#39;s rate limit: 1 message, about 61 s.")
	b.want(200, "An administrator of the homeserver can exempt the bot")
	b.get("/ui/rooms")
	b.want(200, "Waiting for the homeserver&#39;s rate limit: 1 message, about 61 s.")
}

// The room of an application that lost its right to it isn't shown as OK.
func TestRooms_OwnerAbsent(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	admin, err := b.service.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	name, password, id := "anna", "long enough", "@anna:example.org"
	anna, err := b.service.CreateUser(t.Context(), admin, account.UserInput{Name: &name, Password: &password, MatrixID: &id})
	if err != nil {
		t.Fatal(err)
	}
	app, target := "backup", room
	_, err = b.service.CreateApplication(t.Context(), account.Principal{UserID: anna.ID}, account.ApplicationInput{Name: &app, Room: &target})
	if err != nil {
		t.Fatal(err)
	}
	b.get("/ui/rooms")
	b.want(200, `<span class="state sent">OK</span>`)
	if err := b.service.Presence(t.Context(), room, id, false); err != nil {
		t.Fatal(err)
	}
	b.get("/ui/rooms")
	b.want(200, "Messages of backup are refused.", `-<span class="state sent">OK</span>`)
	b.get("/ui/")
	b.want(200, "Messages of backup are refused.", "action required")
}

// TestRemovalThatFails: the page of a message that stays in its room has the reason.
func TestRemovalThatFails(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	message := b.send(b.app("a", room), "Stays", "text")
	b.until(message, "Remove from the room")
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassBlock, Reason: "the bot may not remove events"})
	b.post(message + "/cancel")
	b.want(200, "it is being removed")
	b.until(message, "The event could not be removed from the room: the bot may not remove events.")
	b.get("/ui/messages")
	b.want(200, "could not be removed")
	b.hs.FailIn(room, nil)
	b.post(message + "/cancel")
	b.until(message, "later removed from the room")
	b.want(200, "-could not be removed")
}

// TestRemovalThatWaits: the page says that it is under way, does not offer it again, and says that the text is kept here.
func TestRemovalThatWaits(t *testing.T) {
	for retention, kept := range map[time.Duration]string{
		0:               "Its text stays here in the relay.",
		720 * time.Hour: "Its text stays here in the relay until history.retention (30 days) is over.",
	} {
		b := newBrowserWith(t, func(o *Options) { o.Retention = retention })
		b.admin()
		message := b.send(b.app("a", room), "Goes", "text")
		b.until(message, "Remove from the room")
		b.want(200, "-Its text stays")
		b.get(message + "/cancel")
		b.want(200, kept)
		release := b.hs.Hold()
		b.post(message + "/cancel")
		b.want(200, "is being removed from the room", "data-live", "-Remove from the room", "-Withdraw<", kept)
		release()
		b.until(message, "later removed from the room")
		b.want(200, kept, "-data-live", "-being removed from the room")
	}
}

// TestReplacedRoom: its application's page shows the problem while it lasts.
func TestReplacedRoom(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.hs.Has(matrix.RoomInfo{RoomID: room, Joined: true, ReplaceBy: "!new:example.org"})
	app := b.app("a", room)
	page := "/ui/applications/" + strconv.FormatInt(app.Application.ID, 10)
	b.get(page)
	b.want(200, "Invite the bot there")
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassBlock, Reason: "the other room does not follow it"})
	b.until(b.send(app, "x", "text"), "does not follow")
	b.get(page)
	b.want(200, "Messages wait: The other room does not follow it.", "-nvite the bot there")
	b.hs.Has(matrix.RoomInfo{RoomID: room, Joined: true, Writable: true})
	b.get(page)
	b.want(200, "Messages wait: The other room does not follow it.")
}

// TestDeliveredAtLast: the page of a delivered message does not show earlier failures.
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
		if _, err := b.service.Accept(t.Context(), intake.Request{Token: app.Token, Message: "m"}); err != nil {
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

func TestRetryRoom(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	app := b.app("a", "!closed:example.org")
	b.hs.FailIn("!closed:example.org", &matrix.SendError{Class: matrix.ClassBlock, Reason: "the bot may not write in the room"})
	path := b.send(app, "", "m")
	b.get("/ui/rooms")
	b.want(200, "blocked", "The bot may not write in the room.", "Try again")
	b.hs.FailIn("!closed:example.org", nil)
	b.post("/ui/rooms/retry", "room", "!closed:example.org")
	b.want(200, "The relay tries again to send to the room.")
	b.until(path, "Remove from the room")
	b.want(200, "delivered")
}

func TestUsersAndAccount(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.app("of the administrator", room)
	b.get("/ui/users/new")
	b.post("/ui/users/new", "name", "maria", "password", "short")
	b.want(400, "A password has", `value="maria"`)
	b.post("/ui/users/new", "name", "maria", "password", "long enough", "matrix_id", "@maria:example.org")
	b.want(200, "Created.", "@maria:example.org", "(you)")
	b.get("/ui/users/2")
	b.post("/ui/users/2", "name", "maria", "matrix_id", "maria")
	b.want(400, "A Matrix id looks like", `value="maria"`)
	b.get("/ui/users/1")
	b.want(200, "-Delete…")
	b.get("/ui/account")
	b.want(200, "The configuration sets this account")

	b.forget()
	b.login("maria", "long enough")
	b.want(200, "-/ui/users")
	b.get("/ui/applications")
	b.want(200, "-of the administrator")
	for path, want := range map[string]int{"/ui/users": 403, "/ui/users/new": 403, "/ui/users/1": 403, "/ui/users/1/delete": 403, "/ui/applications/1": 404, "/ui/applications/1/delete": 404} {
		b.get(path)
		b.want(want)
	}
	b.get("/ui/rooms?check")
	b.want(200, "-Check results", "-Operations", "-hs.example.org")
	b.get("/ui/applications/new")
	b.want(200, "-Operations")
	b.get("/ui/account")
	b.post("/ui/account/password", "present", "wrong", "password", "even longer", "again", "even longer")
	b.want(400, "The current password is wrong.")
	b.post("/ui/account/password", "present", "long enough", "password", "even longer", "again", "even longr")
	b.want(400, "The two new passwords differ.")
	b.post("/ui/account/password", "present", "long enough", "password", "even longer", "again", "even longer")
	b.want(200, "The password is changed.")
	b.post("/ui/account", "matrix_id", "@m:example.org")
	b.want(403, "Only administrators may set Matrix IDs", "@maria:example.org", "-@m:example.org")

	b.forget()
	b.login(relaytest.AdminName, relaytest.AdminPassword)
	b.get("/ui/users/2/delete")
	b.want(200, "Delete the user “maria”?")
	b.post("/ui/users/2/delete")
	b.want(200, "Deleted.", "-maria")
}

func TestPausedIsSaid(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	app := b.app("a", room)
	b.hs.Fail(&matrix.SendError{Class: matrix.ClassAway, Reason: "the homeserver cannot be reached"})
	b.send(app, "", "m")
	b.get("/ui/")
	b.want(200, "Deliveries are paused.", "The homeserver cannot be reached.")
	b.get("/ui/rooms")
	b.want(200, "Deliveries are paused")
}

// TestUnheard: where messages of priority 2 alert nobody, the rooms say so.
func TestUnheard(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	app := b.app("a", room)
	mention := "owner"
	v, err := b.service.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.service.UpdateApplication(t.Context(), v, app.Application.ID, account.ApplicationInput{Mention: &mention}); err != nil {
		t.Fatal(err)
	}
	b.get("/ui/rooms?check")
	b.want(200, "-alert nobody")
	none := ""
	if _, err := b.service.UpdateUser(t.Context(), v, v.UserID, account.UserInput{MatrixID: &none}); err != nil {
		t.Fatal(err)
	}
	b.get("/ui/rooms?check")
	b.want(200, "Messages of priority 2 from a alert nobody.")
}

// TestMessage_Attachments: a message's page names what is attached to it.
func TestMessage_Attachments(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.app("a", room)
	a, err := b.service.Attach(t.Context(), strings.NewReader("content"), 100)
	if err != nil {
		t.Fatal(err)
	}
	a.Name = "<b>.txt"
	v, _ := relaytest.Administrator(b.service)
	m, err := b.service.AcceptFor(t.Context(), v, 1, intake.Request{Message: "m", Attachments: []outbox.Attachment{a}})
	if err != nil {
		t.Fatal(err)
	}
	b.get(fmt.Sprintf("/ui/messages/%d", m.ID))
	if !strings.Contains(b.page, "&lt;b&gt;.txt (text/plain, 7 B)") {
		t.Errorf("the page doesn't name the attachment: %s", b.page)
	}
}

// An application's room is chosen from those of the others, or typed.
func TestRoomOfAnApplication(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.app("renamed", room)
	other := b.app("elsewhere", "!elsewhere:hs").Application.Room
	b.get("/ui/applications/1")
	b.want(200, `<option value="`+room+`">`, `<option value="`+other+`">`)
	b.post("/ui/applications/1", "name", "renamed", "joined", other, "room_id", "", "priority_scale", "gotify")
	b.want(200, "Saved.", `<option value="`+other+`">`)
	v, err := b.service.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	if a, err := b.service.Application(t.Context(), v, 1); err != nil || a.Room != other {
		t.Errorf("the room is %q, %v", a.Room, err)
	}
	b.post("/ui/applications/1", "name", "renamed", "joined", other, "room_id", "nonsense", "priority_scale", "gotify")
	b.want(400, `role="alert"`, `value="nonsense"`)
	b.post("/ui/applications/1", "name", "renamed", "joined", other, "room_id", room, "priority_scale", "gotify")
	b.want(200, "Saved.", `<option value="`+room+`">`)
}
