package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

const patience = 5 * time.Second

func TestApplications(t *testing.T) {
	w := newWorld(t, nil)
	made := w.manage("POST", "/application", `{"name":"a","room_id":"`+room+`","default_priority":1}`)
	w.want("create", made, 201, "name", "a", "room_id", room, "default_priority", 1.0, "strict_compatibility", false)
	token, _ := made.fields["token"].(string)
	if got := made.header.Get("Location"); got != "/application/1" || len(token) < 23 {
		t.Errorf("Location %q, token of %d characters", got, len(token))
	}
	w.want("name taken", w.manage("POST", "/application", `{"name":"a","room_id":"`+room+`"}`), 409, "field", "name")
	w.want("no name", w.manage("POST", "/application", `{"room_id":"`+room+`"}`), 400, "field", "name")
	w.want("no room's name", w.manage("POST", "/application", `{"name":"x","room_id":"room"}`), 400, "field", "room_id")
	w.want("an id of room version 12", w.manage("POST", "/application", `{"name":"v12","room_id":"!opaque"}`), 201, "room_id", "!opaque")
	w.want("wrong type", w.manage("POST", "/application", `{"name":5}`), 400, "field", "name")
	w.want("unknown field", w.manage("POST", "/application", `{"name":"y","priorty":1}`), 400, "field", "priorty")
	for field, bad := range map[string][]string{
		"name":             {`{"name":" "}`, `{"name":"` + strings.Repeat("n", 129) + `"}`, `{"name":"a\nb"}`},
		"room_id":          {`{"name":"y","room_id":"@user:hs"}`, `{"name":"y","room_id":"!a b:hs"}`, `{"name":"y","room_id":"#room"}`},
		"default_priority": {`{"name":"y","default_priority":9}`},
		"priority_scale":   {`{"name":"y","priority_scale":"ntfy"}`},
		"rate_limit":       {`{"name":"y","rate_limit":-1}`},
		"owner_id":         {`{"name":"y","owner_id":99}`},
	} {
		for _, body := range bad {
			w.want(body, w.manage("POST", "/application", body), 400, "field", field)
		}
	}
	strict := w.manage("POST", "/application", "name=strict&strict_compatibility=true&room_id="+room)
	w.want("strict, by a form", strict, 201, "strict_compatibility", true)
	if s, _ := strict.fields["token"].(string); len(s) != 15 || s[0] != 'A' {
		t.Errorf("the strict token is %q", s)
	}
	w.want("a room of the bot's making", w.manage("POST", "/application", `{"name":"made"}`), 201)

	shown := w.manage("GET", "/application/1", "")
	w.want("show", shown, 200, "name", "a", "owner", relaytest.AdminName, "token", nil)
	w.want("what was read can be sent back", w.manage("PUT", "/application/1", shown.body), 200, "name", "a")
	if list := w.manage("GET", "/application", "").body; strings.Contains(list, token) || strings.Count(list, `"id"`) != 4 {
		t.Errorf("the list is %s", list)
	}
	w.want("looks", w.manage("PUT", "/application/1", `{"default_format":"plain","show_sender":"never","description":" nightly "}`), 200, "default_format", "plain", "show_sender", "never", "description", "nightly")
	w.want("no format", w.manage("PUT", "/application/1", `{"default_format":"rtf"}`), 400, "field", "default_format")
	w.want("no choice", w.manage("PUT", "/application/1", `{"show_sender":"maybe"}`), 400, "field", "show_sender")
	w.want("rename", w.manage("PUT", "/application/1", `{"name":" b "}`), 200, "name", "b", "default_priority", 1.0)
	w.want("an alias", w.manage("PUT", "/application/4", `{"room_id":"#room:hs"}`), 200)
	w.want("rename as PushBits", w.manage("PUT", "/application/1", `{"new_name":"c"}`), 200, "name", "c", "token", nil)
	w.want("rename to a taken name", w.manage("PUT", "/application/1", `{"name":"strict"}`), 409)

	send := func(token string) reply { return w.ask("POST", "/message", `{"token":"`+token+`","message":"m"}`) }
	w.want("the token works", send(token), 200)
	fresh := w.manage("POST", "/application/1/token", `{"grace":"1h"}`)
	w.want("new token", fresh, 200)
	w.want("the old one within its grace", send(token), 200)
	second, _ := fresh.fields["token"].(string)
	refreshed := w.manage("PUT", "/application/1", `{"refresh_token":true}`)
	w.want("new token as PushBits", refreshed, 200)
	w.want("the first", send(token), 401)
	w.want("the second", send(second), 401)
	w.want("the third", send(fmt.Sprint(refreshed.fields["token"])), 200)
	third := fmt.Sprint(refreshed.fields["token"])
	refreshed = w.manage("POST", "/application/1/token", "")
	w.want("new token, nothing said of the old one", refreshed, 200)
	w.want("which stops at once", send(third), 401)
	w.want("nonsense for grace", w.manage("POST", "/application/1/token", `{"grace":"long"}`), 400, "field", "grace")

	w.want("delete", w.manage("DELETE", "/application/1", ""), 200)
	w.want("gone", w.manage("GET", "/application/1", ""), 404)
	w.want("its token", send(fmt.Sprint(refreshed.fields["token"])), 401)
}

func TestOthersThings(t *testing.T) {
	w := newWorld(t, nil)
	w.want("user", w.manage("POST", "/user", `{"name":"maria","password":"long enough","matrix_id":"@maria:example.org"}`), 201, "is_admin", false, "password", nil)
	admins := w.app(named("admins"))
	maria := basicHeader("maria", "long enough")
	own := w.ask("POST", "/application", `{"name":"own","room_id":"`+room+`"}`, maria)
	w.want("own", own, 201, "owner", "maria")
	w.want("another user's of the same name", w.manage("POST", "/application", `{"name":"own","room_id":"`+room+`"}`), 201)
	path := fmt.Sprintf("/application/%d", admins.Application.ID)
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		w.want(method, w.ask(method, path, "{}", maria), 404)
	}
	w.want("token", w.ask("POST", path+"/token", "", maria), 404)
	if list := w.ask("GET", "/application", "", maria); strings.Contains(list.body, "admins") {
		t.Errorf("maria sees %s", list.body)
	}
	w.want("users", w.ask("GET", "/user", "", maria), 403)
	w.want("create user", w.ask("POST", "/user", `{"name":"x","password":"long enough"}`, maria), 403)
	w.want("the administrator", w.ask("GET", "/user/1", "", maria), 404)
	w.want("delete the administrator", w.ask("DELETE", "/user/1", "", maria), 404)
	w.want("delete oneself", w.ask("DELETE", "/user/2", "", maria), 403)
	w.want("own record", w.ask("GET", "/user/2", "", maria), 200, "name", "maria")
	path = fmt.Sprint("/application/", own.fields["id"])
	w.want("give an application away", w.ask("PUT", path, `{"owner_id":1}`, maria), 403)
	w.want("own rights", w.ask("PUT", "/user/2", `{"is_admin":true}`, maria), 403)
	w.want("own password", w.ask("PUT", "/user/2", `{"password":"even longer"}`, maria), 200)
	w.want("the former password", w.ask("GET", "/user/2", "", maria), 401)
	w.want("doctor", w.ask("GET", "/doctor", "", basicHeader("maria", "even longer")), 403)
	w.want("recovery key", w.ask("GET", "/bot/recovery-key", "", basicHeader("maria", "even longer")), 403)
	w.want("the administrator changes it", w.manage("PUT", path, `{"name":"new","room_id":"!b:hs","owner_id":1,"default_priority":-1}`), 200,
		"name", "new", "room_id", "!b:hs", "owner", relaytest.AdminName, "default_priority", -1.0)
	w.want("an application's token is no user", w.ask("GET", "/application", "", "Authorization: Bearer "+admins.Token), 401)
}

func TestUsers(t *testing.T) {
	w := newWorld(t, nil)
	made := w.manage("POST", "/user", `{"name":"u","password":"long enough","matrix_id":"@u:example.org","is_admin":true}`)
	w.want("create", made, 201, "name", "u", "is_admin", true, "matrix_id", "@u:example.org")
	if made.header.Get("Location") != "/user/2" || strings.Contains(made.body, "password") {
		t.Errorf("Location %q, %s", made.header.Get("Location"), made.body)
	}
	w.want("taken", w.manage("POST", "/user", `{"name":"U","password":"long enough"}`), 409)
	w.want("colon", w.manage("POST", "/user", `{"name":"b:c","password":"long enough"}`), 400, "field", "name")
	w.want("no password", w.manage("POST", "/user", `{"name":"v"}`), 400, "field", "password")
	w.want("short password", w.manage("POST", "/user", `{"name":"v","password":"short"}`), 400, "field", "password")
	w.want("short password of many bytes", w.manage("POST", "/user", `{"name":"v","password":"äöüß"}`), 400, "field", "password")
	w.want("no Matrix ID", w.manage("POST", "/user", `{"name":"v","password":"long enough","matrix_id":"v"}`), 400, "field", "matrix_id")
	w.want("list", w.manage("GET", "/user", ""), 200)
	w.want("change", w.manage("PUT", "/user/2", `{"matrix_id":"@w:example.org","is_admin":false}`), 200, "matrix_id", "@w:example.org", "is_admin", false)
	w.want("the last administrator stays one", w.manage("PUT", "/user/1", `{"is_admin":false}`), 409)
	w.want("the last administrator stays", w.manage("DELETE", "/user/1", ""), 409)
	own := basicHeader("u", "long enough")
	w.want("the user's application", w.ask("POST", "/application", `{"name":"a","room_id":"`+room+`"}`, own), 201)
	w.want("delete", w.manage("DELETE", "/user/2", ""), 200)
	w.want("gone", w.manage("GET", "/user/2", ""), 404)
	w.want("with the application", w.manage("GET", "/application/1", ""), 404)
	w.want("and the login", w.ask("GET", "/application", "", own), 401)
}

func TestLoginIsLimited(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 40 {
		r := w.ask("GET", "/application", "", basicHeader("nobody", fmt.Sprint(i)))
		if r.status == 401 && r.header.Get("WWW-Authenticate") == "" {
			t.Error("no WWW-Authenticate")
		}
		if r.status == http.StatusTooManyRequests {
			if r.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			return
		}
	}
	t.Error("40 wrong passwords in a row are let through")
}

// TestOtherSitesChangeNothing: a browser that somebody has given name and password to
// sends them along with any other site's form.
func TestOtherSitesChangeNothing(t *testing.T) {
	w := newWorld(t, nil)
	admin, form := basicHeader(relaytest.AdminName, relaytest.AdminPassword), "Content-Type: application/x-www-form-urlencoded"
	const user = "name=evil&password=long+enough&is_admin=true"
	for name, header := range map[string]string{"a browser of today": "Sec-Fetch-Site: cross-site", "an old one": "Origin: https://evil.example"} {
		w.want(name, w.ask("POST", "/user", user, admin, form, header), 403, "errorDescription", "Cross-site requests are refused.")
		w.want(name+", deleting", w.ask("DELETE", "/user/1", "", admin, header), 403)
		w.want(name+", reading", w.ask("GET", "/user", "", admin, header), 200)
	}
	w.want("no browser", w.ask("POST", "/user", user, admin, form), 201)
	w.want("this site", w.ask("PUT", "/user/2", `{"matrix_id":""}`, admin, "Sec-Fetch-Site: same-origin", "Origin: https://relay.example"), 200)
}

// TestSession: the pages' session opens the API too; what changes something
// needs its word.
func TestSession(t *testing.T) {
	w := newWorld(t, nil)
	s, err := w.service.Login(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "x")
	if err != nil {
		t.Fatal(err)
	}
	cookie := "Cookie: " + account.SessionCookie + "=" + s.Token
	w.want("read", w.ask("GET", "/application", "", cookie), 200)
	w.want("write without the word", w.ask("POST", "/application", `{"name":"a"}`, cookie), 403)
	w.want("write with another word", w.ask("POST", "/application", `{"name":"a"}`, cookie, "X-CSRF-Token: x"), 403)
	w.want("write", w.ask("POST", "/application", `{"name":"a"}`, cookie, "X-CSRF-Token: "+s.CSRF), 201)
	w.want("no session", w.ask("GET", "/application", "", "Cookie: "+account.SessionCookie+"=x"), 401)
	if err := w.service.Logout(t.Context(), s.Token); err != nil {
		t.Fatal(err)
	}
	w.want("ended", w.ask("GET", "/application", "", cookie), 401)
}

func TestOperation(t *testing.T) {
	w := newWorld(t, nil)
	w.want("health", w.ask("GET", "/health", ""), 200, "health", "green", "database", "green", "matrix", "green")
	w.want("health by HEAD", w.ask("HEAD", "/health", ""), 200)
	w.want("live", w.ask("GET", "/livez", ""), 200)
	w.want("ready", w.ask("GET", "/readyz", ""), 200)
	w.want("version", w.ask("GET", "/version", ""), 200, "version", "1", "commit", "abc", "buildDate", "today")
	w.want("unknown", w.ask("GET", "/nothing", ""), 404, "code", "not_found", "errorCode", 404.0)
	for _, path := range []string{"//version", "/version/", "///version//"} {
		w.want(path, w.ask("GET", path, ""), 200, "version", "1")
	}
	w.want("slashes inside", w.ask("GET", "/message//1", ""), 404)
	r := w.ask("PATCH", "/message/5", "")
	w.want("method", r, 405, "code", "method_not_allowed")
	if got := r.header.Get("Allow"); got != "DELETE, GET, HEAD, PUT" {
		t.Errorf("Allow is %q", got)
	}
	if got := w.ask("PUT", "/message", "").header.Get("Allow"); got != "DELETE, GET, HEAD, POST" {
		t.Errorf("Allow is %q", got)
	}
}

// TestClosedIntake: what cannot be held is not accepted.
func TestClosedIntake(t *testing.T) {
	w := newWorld(t, func(o *service.Options) { o.Limits.MaxWaiting = 1 })
	token := w.app(named("a")).Token
	w.hs.Fail(&matrix.SendError{Class: matrix.ClassAway, Reason: "away"})
	body := `{"token":"` + token + `","message":"m"}`
	w.want("first", w.ask("POST", "/message", body), 200)
	r := w.ask("POST", "/message", body)
	w.want("second", r, 503, "code", "unavailable", "success", false)
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
