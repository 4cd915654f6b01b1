package web

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relaytest"
)

func TestApplicationLife(t *testing.T) {
	b := newBrowser(t)
	b.hs.Has(matrix.RoomInfo{RoomID: "!secret:example.org", Name: "Family", Joined: true, Encrypted: true})
	b.admin()
	b.want(200, "Create the first application", "Relay v1.2.3")
	b.get("/ui/applications/new")
	b.want(200, "Operations · !room:example.org", "Family · encrypted · !secret:example.org")
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
	b.want(400, "Field &#39;critical_retry&#39; is 1s; it must be 0, or from 30s to", `<details class="more" open>`)

	b.get("/ui/applications/1")
	group := 0
	for _, name := range []string{"Messages", "Alerts", "Floods and quiet hours", "Heartbeat", "Limits and security"} {
		at := strings.Index(b.page, "<legend>"+name+"</legend>")
		if at < group {
			t.Errorf("the settings have no group %q, or in another order", name)
		}
		group = at
	}
	b.want(200, "<h1>backup</h1>", "-"+token, b.base+"/hook/github/TOKEN", "authorization: {credentials: TOKEN}", "ntfy://:TOKEN@"+strings.TrimPrefix(b.base, "http://")+"/alerts?scheme=http")
	if strings.Index(b.page, `id="token"`) > strings.Index(b.page, `id="recent"`) {
		t.Error("the token is not on top of the page")
	}
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

// An empty field keeps the secret, and no page shows it.
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

// The page of an application that must send heartbeats shows when the next is due, and what sends one.
func TestHeartbeatOfAnApplication(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.app("a", room)
	b.get("/ui/applications/1")
	b.want(200, "<legend>Heartbeat</legend>", "Alert when nothing arrives for", "-Heartbeat every", "-/heartbeat/TOKEN</code></pre>")
	b.post("/ui/applications/1", "name", "a", "heartbeat", "24h")
	b.want(200, "Saved.", "Heartbeat every 24h: none has come yet; the next is due in 24 h.", "/heartbeat/TOKEN</code></pre>")
	b.post("/ui/applications/1/test", "title", "t", "message", "m", "priority", "0")
	b.get("/ui/applications/1")
	b.want(200, "Heartbeat every 24h: the last one was ")
}

// A room that was typed is meant, though its radio button is not chosen.
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
