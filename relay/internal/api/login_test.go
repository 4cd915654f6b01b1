package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// login logs in as Gotify's web client does and returns its cookie.
func (w *world) login(auth string, headers ...string) (reply, *http.Cookie) {
	w.Helper()
	r := w.ask("POST", "/auth/local/login", "name=browser", append(headers, auth, "Content-Type: application/x-www-form-urlencoded")...)
	cookies := (&http.Response{Header: r.header}).Cookies()
	if r.status != 200 {
		if len(cookies) != 0 {
			w.Errorf("a refused login sets %v", cookies)
		}
		return r, nil
	}
	if len(cookies) != 1 {
		w.Fatalf("the login sets %v", cookies)
	}
	return r, cookies[0]
}

// The paths, the cookie and the answers are those of Gotify 3.0.0.
func TestGotifyLogin(t *testing.T) {
	w := newWorld(t, nil)
	r, c := w.login(admin)
	w.want("log in", r, 200, "id", 1.0, "name", "admin", "admin", true, "clientId", 1.0)
	if at, err := time.Parse(time.RFC3339, r.fields["createdAt"].(string)); err != nil || at.IsZero() {
		t.Error(at, err)
	}
	if got := strings.Replace(c.Raw, c.Value, "TOKEN", 1); got != "gotify-client-token=TOKEN; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict" {
		t.Error(got)
	}
	cookie := "Cookie: gotify-client-token=" + c.Value
	me := w.ask("GET", "/current/user", "", cookie)
	w.want("who am I", me, 200, "clientId", 1.0, "name", "admin")
	if !strings.Contains(me.header.Get("Set-Cookie"), c.Value) {
		t.Errorf("the login is not extended: %q", me.header.Get("Set-Cookie"))
	}
	list := w.ask("GET", "/client", "", cookie)
	if w.want("clients", list, 200); !strings.Contains(list.body, `"expiresAfterInactivitySeconds":604800,"expiresAt":"`) {
		t.Error(list.body)
	}
	app := w.app(named("a"))
	w.want("send", w.ask("POST", "/message", `{"message":"m","appid":1}`, cookie, isJSON), 200)
	w.want("of its application", w.ask("POST", "/message", `{"message":"n","token":"`+app.Token+`"}`, cookie, isJSON), 200)
	read := w.ask("GET", "/message", "", cookie)
	if w.want("read", read, 200); !strings.Contains(read.body, `"paging"`) || !strings.Contains(read.body, `"message":"m"`) {
		t.Error(read.body)
	}
	w.want("applications", w.ask("GET", "/application", "", cookie), 200)
	for what, headers := range map[string][]string{"another site": {"Sec-Fetch-Site: cross-site"}, "another origin": {"Origin: https://evil.example"}} {
		w.want(what+" sends", w.ask("POST", "/message", `{"message":"m","appid":1}`, append(headers, cookie, isJSON)...), 403)
		w.want(what+" hides", w.ask("DELETE", "/message", "", append(headers, cookie)...), 403)
		w.want(what+" logs out", w.ask("POST", "/auth/logout", "", append(headers, cookie)...), 403)
		refused, _ := w.login(admin, headers...)
		w.want(what+" logs in", refused, 403)
	}
	out := w.ask("POST", "/auth/logout", "", cookie)
	w.want("log out", out, 200)
	if got := out.header.Get("Set-Cookie"); got != "gotify-client-token=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict" {
		t.Error(got)
	}
	w.want("afterwards", w.ask("GET", "/current/user", "", cookie), 401)
	w.want("twice", w.ask("POST", "/auth/logout", "", cookie), 401)
	w.want("without a client", w.ask("POST", "/auth/logout", "", admin), 403)

	for what, auth := range map[string]string{"wrong password": basicHeader("admin", "wrong horse"), "nobody": basicHeader("nobody", "wrong horse"), "no password": "X-Nothing: x"} {
		r, _ := w.login(auth)
		if w.want(what, r, 401); strings.Contains(r.header.Get("WWW-Authenticate"), "Basic") {
			t.Errorf("%s: a browser would ask for a password", what)
		}
	}
	w.want("without a name", w.ask("POST", "/auth/local/login", "", admin), 400)
	w.want("a negative time", w.manage("POST", "/client", `{"name":"x","expiresAfterInactivitySeconds":-1}`), 400)
}

// A page of another site can't read a stream with the cookie that the browser adds.
func TestGotifyLogin_StreamOfAnotherSite(t *testing.T) {
	w := newWorld(t, nil)
	_, c := w.login(admin)
	for origin, want := range map[string]int{"https://evil.example": http.StatusForbidden, w.base: http.StatusSwitchingProtocols} {
		conn, resp, err := websocket.Dial(t.Context(), w.base+"/stream", &websocket.DialOptions{ //nolint:bodyclose // it has none
			HTTPHeader: http.Header{"Cookie": {c.Name + "=" + c.Value}, "Origin": {origin}},
		})
		if conn != nil {
			defer func() { _ = conn.CloseNow() }()
		}
		if resp == nil || resp.StatusCode != want {
			t.Errorf("%s: %v, %v", origin, resp, err)
		}
	}
}

// A client that isn't used within its time is deleted, and a used one is not.
func TestIdleClients(t *testing.T) {
	w := newWorld(t, nil)
	w.want("a year", w.manage("POST", "/client", `{"name":"a","expiresAfterInactivitySeconds":31536000}`), 200, "expiresAfterInactivitySeconds", 31536000.0)
	w.want("for ever", w.manage("POST", "/client", `{"name":"b"}`), 200, "expiresAfterInactivitySeconds", 0.0, "expiresAt", nil)
	_, c := w.login(admin)
	cookie := "Cookie: gotify-client-token=" + c.Value
	changed := w.ask("PUT", "/client/3", `{"name":"c"}`, cookie, isJSON)
	w.want("rename", changed, 200, "expiresAfterInactivitySeconds", 604800.0)
	day := 24 * time.Hour
	for _, step := range []struct {
		after time.Duration
		left  string
	}{{6 * day, "a b c"}, {8 * day, "a b"}, {400 * day, "b"}} {
		if err := w.service.DeleteIdleClients(t.Context(), time.Now().Add(step.after)); err != nil {
			t.Fatal(err)
		}
		all, err := w.service.Clients(t.Context(), w.admin)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range all {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got != step.left {
			t.Errorf("after %v are left %s, want %s", step.after, got, step.left)
		}
	}
	w.want("its token", w.ask("GET", "/current/user", "", cookie), 401)
}
