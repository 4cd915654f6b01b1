package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relaytest"
)

func TestMessageStatus(t *testing.T) {
	w := newWorld(t, nil)
	app, other := w.app(named("a")), w.app(named("b"))
	w.want("send", w.ask("POST", "/message?wait=5s", `{"token":"`+app.Token+`","message":"m","title":"t"}`), 200)
	mine, theirs := "X-Gotify-Key: "+app.Token, "X-Gotify-Key: "+other.Token
	w.want("by the token", w.ask("GET", "/message/1", "", mine), 200, "status", "sent", "title", "t", "attempts", 1.0, "room_id", room, "application", "a")
	w.want("by the user", w.manage("GET", "/message/1", ""), 200, "status", "sent")
	w.want("by Basic with the token", w.ask("GET", "/message/1", "", basicHeader("x", app.Token)), 200)
	w.want("another application's", w.ask("GET", "/message/1", "", theirs), 404)
	w.want("nobody", w.ask("GET", "/message/1", ""), 401)
	w.want("none there", w.ask("GET", "/message/99", "", mine), 404)
	w.want("beyond numbers", w.ask("GET", "/message/99999999999999999999", "", mine), 404)
	w.want("redeliver what is sent", w.ask("POST", "/message/1/redeliver", "", mine), 409)
	w.want("another's removed", w.ask("DELETE", "/message/1", "", theirs), 404)
	w.want("removed", w.ask("DELETE", "/message/1", "", mine), 200)

	w.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassDead, Status: 400, Code: "M_BAD_JSON", Reason: "not taken"})
	r := w.ask("POST", "/message?wait=5s", `{"token":"`+app.Token+`","message":"m"}`)
	w.want("send", r, 200, "status", "dead")
	path, _ := r.fields["status_url"].(string)
	w.want("dead", w.ask("GET", path, "", mine), 200, "status", "dead", "last_error", "not taken", "last_error_code", "M_BAD_JSON", "event_id", nil)
	w.hs.FailIn(room, nil)
	w.want("again", w.ask("POST", path+"/redeliver", "", mine), 200)
	if _, err := w.service.Wait(t.Context(), w.admin, int64(r.fields["id"].(float64)), patience); err != nil {
		t.Fatal(err)
	}
	w.want("sent at last", w.ask("GET", path, "", mine), 200, "status", "sent")
}

func TestMessageList(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.app(named("a")), w.app(named("b"))
	for i := range 5 {
		w.want("send", w.ask("POST", "/message?wait=5s", fmt.Sprintf(`{"token":%q,"message":"number %d"}`, a.Token, i)), 200)
	}
	w.want("send", w.ask("POST", "/message?wait=5s", `{"token":"`+b.Token+`","message":"of b"}`), 200)
	size := func(what string, r reply, want int) reply {
		t.Helper()
		w.want(what, r, 200)
		if list, _ := r.fields["messages"].([]any); len(list) != want {
			t.Errorf("%s: %d messages, want %d: %s", what, len(list), want, r.body)
		}
		return r
	}
	key := "X-Gotify-Key: " + a.Token
	size("the application's", w.ask("GET", "/message?limit=50", "", key), 5)
	size("by ?token=", w.ask("GET", "/message?limit=50&token="+a.Token, ""), 5)
	size("the administrator's", w.manage("GET", "/message", ""), 6)
	size("of one application", w.manage("GET", fmt.Sprintf("/message?appid=%d", b.Application.ID), ""), 1)
	size("by text", w.ask("GET", "/message?q=NUMBER+3", "", key), 1)
	size("by state", w.ask("GET", "/message?state=dead,queued", "", key), 0)
	size("by a state of none", w.ask("GET", "/message?state=dead", "", key), 0)
	size("by states", w.ask("GET", "/message?state=sent,dead", "", key), 5)
	size("no wildcard", w.ask("GET", "/message?q=n_mber", "", key), 0)
	size("since", w.ask("GET", "/message?since=2099-01-01T00:00:00Z", "", key), 0)
	size("until", w.ask("GET", "/message?until=2099-01-01T00:00:00Z", "", key), 5)
	size("until long ago", w.ask("GET", "/message?until=2020-01-01T00:00:00Z", "", key), 0)
	for path, seen := "/message?limit=2", 0; path != ""; {
		r := w.ask("GET", path, "", key)
		w.want(path, r, 200)
		seen += len(r.fields["messages"].([]any))
		if path, _ = r.fields["paging"].(map[string]any)["next"].(string); path == "" && seen != 5 {
			t.Errorf("%d messages on all pages, want 5", seen)
		}
	}
	next := w.ask("GET", "/message?limit=2&since=2020-01-01T00:00:00Z", "", key).fields["paging"].(map[string]any)["next"]
	if next, _ := next.(string); !strings.Contains(next, "since=2020-01-01") {
		t.Errorf("the next page %q isn't of the same time", next)
	}
	w.want("user", w.manage("POST", "/user", `{"name":"maria","password":"long enough"}`), 201)
	maria := basicHeader("maria", "long enough")
	w.hs.FailIn("!b:hs", &matrix.SendError{Class: matrix.ClassBlock, Reason: "not in the room"})
	c := w.manage("POST", "/application", `{"name":"c","room_id":"!b:hs","owner_id":2}`).fields["token"]
	w.want("send", w.ask("POST", "/message?wait=5s", fmt.Sprintf(`{"token":%q,"message":"of c"}`, c)), 200, "status", "blocked")
	size("a user's", w.ask("GET", "/message?limit=50", "", maria), 1)
	size("another's application", w.ask("GET", fmt.Sprintf("/message?appid=%d", a.Application.ID), "", maria), 0)
	size("blocked", w.manage("GET", "/message?state=blocked,dead", ""), 1)
	size("on their way", w.manage("GET", "/message?state=queued,retry_wait", ""), 0)
	w.want("another's", w.ask("GET", "/message/1", "", maria), 404)
	for _, bad := range []string{"state=lost", "limit=0", "limit=1000", "limit=x", "before=x", "since=yesterday", "nonsense=1"} {
		w.want(bad, w.ask("GET", "/message?"+bad, "", key), 400)
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t, nil)
	app := w.app(named("a"))
	w.hs.Fail(&matrix.SendError{Class: matrix.ClassAway, Reason: "the homeserver is away"})
	w.want("send", w.ask("POST", "/message?wait=200ms", `{"token":"`+app.Token+`","message":"m"}`), 200)
	w.want("health", w.ask("GET", "/health", ""), 200, "health", "orange", "matrix", "red", "database", "green", "waiting", 1.0)
	w.want("ready all the same", w.ask("GET", "/readyz", ""), 200)
	w.want("cancel", w.ask("DELETE", "/message/1", "", "X-Gotify-Key: "+app.Token), 200, "status", "cancelled")
	w.want("cancel again", w.ask("DELETE", "/message/1", "", "X-Gotify-Key: "+app.Token), 200, "status", "cancelled")
	if r := w.manage("GET", "/doctor", ""); r.fields["ok"] != false {
		t.Errorf("the doctor finds nothing: %s", r.body)
	}
	w.want("doctor", w.ask("GET", "/doctor", "", basicHeader(relaytest.AdminName, "wrong")), 401)
}

// TestRemoval: the answer comes before the room has changed and says so, and a repeated request is no error.
func TestRemoval(t *testing.T) {
	w := newWorld(t, nil)
	key := "X-Gotify-Key: " + w.app(named("a")).Token
	w.want("send", w.ask("POST", "/message?wait=1m", `{"message":"m"}`, key), 200, "status", "sent")
	w.want("delivered", w.ask("GET", "/message/1", "", key), 200, "status", "sent", "removal", nil)
	release := w.hs.Hold()
	for _, method := range []string{"DELETE", "DELETE", "GET"} {
		w.want(method+" while the homeserver does not answer", w.ask(method, "/message/1", "", key), 200, "status", "sent", "removal", "pending")
	}
	release()
	for end := time.Now().Add(patience); w.ask("GET", "/message/1", "", key).fields["status"] != "redacted" && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	for _, method := range []string{"GET", "DELETE"} {
		w.want(method+" when it is removed", w.ask(method, "/message/1", "", key), 200, "status", "redacted", "removal", nil)
	}
	if n := len(w.hs.Sent()); n != 2 {
		t.Errorf("the homeserver got %d events, want the message and one removal", n)
	}
}

// A homeserver that limits the bot's rate shows in the health, with what waits and for how long.
func TestHealth_RateLimited(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("a")).Token
	w.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassWait, RetryAfter: time.Minute, Reason: "too fast"})
	for range 2 {
		w.want("send", w.ask("POST", "/message", `{"token":"`+token+`","message":"m"}`), 200)
	}
	var r reply
	for end := time.Now().Add(patience); r.fields["health"] != "orange" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		r = w.ask("GET", "/health", "")
	}
	w.want("health", r, 200, "health", "orange", "matrix", "orange", "waiting", 2.0)
	if reason, _ := r.fields["reason"].(string); !strings.HasPrefix(reason, "Waiting for the homeserver's rate limit: 2 messages, about 12") {
		t.Errorf("reason %q", reason)
	}
}
