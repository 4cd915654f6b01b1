package web

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/session"
)

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

func (b *browser) cookie() *http.Cookie {
	b.Helper()
	at, err := url.Parse(b.url + "/ui/")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range b.client.Jar.Cookies(at) {
		if c.Name == sessionCookie {
			return c
		}
	}
	return nil
}

func TestLogin(t *testing.T) {
	refused := map[auth.Reason]int{}
	s := newSite(t, func(s *setup) { s.pages.Refused = func(reason auth.Reason) { refused[reason]++ } })
	s.image("web/app", "v1", nil, "x")
	b := s.browser()
	b.get("/ui/repository/web/app")
	b.want(404, `href="/ui/login?next=%2Fui%2Frepository%2Fweb%2Fapp"`)
	for _, wrong := range [][2]string{{"bob", "wrong"}, {"unknown", "bob-password"}, {"", ""}, {"robot+ci", "x"}, {"bob", strings.Repeat("x", 10_000)}} {
		b.post("/ui/login", "name", wrong[0], "password", wrong[1])
		b.want(401, "The name or the password is wrong.", "-Log out")
		if b.cookie() != nil {
			t.Fatalf("%v has a session", wrong)
		}
	}
	if refused[auth.WrongPassword] != 1 || refused[auth.UnknownUser] != 4 {
		t.Errorf("counted: %v", refused)
	}
	b.post("/ui/login", "name", "bob", "password", "bob-password", "next", "/ui/repository/web/app")
	b.want(200, "web/app", "Log out")
	b.post("/ui/logout")
	b.want(200, "You are logged out.")
	b.get("/ui/repository/web/app")
	b.want(404)
	b.post("/ui/login", "name", "bob", "password", "bob-password", "next", "https://evil.example/ui/")
	b.want(200)
	if b.at != "/ui/" {
		t.Errorf("the login leads to %s", b.at)
	}
}

func TestSession_Attributes(t *testing.T) {
	s := newSite(t, func(c *setup) { c.api.Host = "https://registry.example.org" })
	b := s.browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.post("/ui/login", "name", "bob", "password", "bob-password")
	set := b.header.Get("Set-Cookie")
	for _, part := range []string{"HttpOnly", "SameSite=Lax", "Secure", "Path=/ui"} {
		if !strings.Contains(set, part) {
			t.Errorf("the cookie lacks %s: %s", part, set)
		}
	}
}

// TestSession_Ends: a session ends with the password that began it, and nobody can make or prolong one.
func TestSession_Ends(t *testing.T) {
	s := newSite(t)
	s.image("web/app", "v1", nil, "x")
	b := s.as("bob")
	good := b.cookie().Value
	forge := func(value string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/ui/repository/web/app", nil)
		if err == nil {
			r.AddCookie(&http.Cookie{Name: sessionCookie, Value: value})
		}
		other := s.browser()
		other.do(r, err)
		if value == "" {
			other.want(404)
			return
		}
		other.want(200, `name="password"`, `value="/ui/repository/web/app"`)
	}
	forge(good[:len(good)-4])
	forge("A" + good[1:])
	forge("")
	web := &Web{o: Options{Sessions: session.Fixed([]byte("another"))}}
	value, err := web.seal(newSession(auth.Session{Kind: 1, Name: "owner"}))
	if err != nil {
		t.Fatal(err)
	}
	forge(value)
	long := newSession(auth.Session{Kind: 1, Name: "bob"})
	long.Expires = long.Expires.Add(time.Hour)
	if value, err = web.seal(long); err != nil {
		t.Fatal(err)
	}
	if _, ok := web.unseal(value); ok {
		t.Error("a session without an end is taken")
	}
	old := newSession(auth.Session{Kind: 1, Name: "bob"})
	old.Expires = time.Now().Add(-time.Second)
	if value, err = web.seal(old); err != nil {
		t.Fatal(err)
	}
	if _, ok := web.unseal(value); ok {
		t.Error("a session that has expired is taken")
	}
	s.setPasswords("owner", "alice") // bob is gone
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if b.get("/ui/repository/web/app"); b.at == "/ui/login?next=%2Fui%2Frepository%2Fweb%2Fapp" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the session outlives its user")
		}
	}
	b.get("/ui/")
	b.want(200, "Log in")
	b.post("/ui/robots", "name", "x")
	b.want(200, `name="password"`)
	b.get("/ui/nothing")
	b.want(200, `name="password"`)
}

// TestLogout_EndsTheSession: a copy of the cookie gives nothing after the logout, the session of
// another login stays.
func TestLogout_EndsTheSession(t *testing.T) {
	s := newSite(t)
	s.image("web/app", "v1", nil, "x")
	b, other := s.as("bob"), s.as("bob")
	stolen := b.cookie()
	use := func(want string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/ui/repository/web/app", nil)
		if err == nil {
			r.AddCookie(stolen)
		}
		thief := s.browser()
		thief.do(r, err)
		thief.want(200, want)
	}
	use("<h1>web/app")
	b.post("/ui/logout")
	b.want(200, "You are logged out.")
	use(`name="password"`)
	other.get("/ui/repository/web/app")
	other.want(200)
}

func TestForgedForms(t *testing.T) {
	s := newSite(t)
	b := s.as("bob")
	b.page = ""
	b.post("/ui/logout")
	b.want(403, "out of date")
	b.page = ""
	b.post("/ui/logout", "csrf", "guess")
	b.want(403, "out of date")
	for _, h := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/ui/login", strings.NewReader("name=bob&password=bob-password"))
		if err == nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set(h[0], h[1])
		}
		b.do(r, err)
		b.want(403, "another site")
	}
	b.get("/ui/")
	b.want(200, "Log out")
}

// TestStaticFiles_SetNoCookie: shared caches may keep them, and would give everybody one session.
func TestStaticFiles_SetNoCookie(t *testing.T) {
	s := newSite(t, open)
	b := s.browser()
	b.get("/ui/")
	path := regexp.MustCompile(`/ui/static/web\.[^"]*`).FindString(b.page)
	other := s.browser()
	other.get(path)
	other.want(200, "use strict")
	if cookie := other.header.Get("Set-Cookie"); cookie != "" || other.header.Get("Cache-Control") == "" {
		t.Errorf("the cookie %q, Cache-Control %q", cookie, other.header.Get("Cache-Control"))
	}
	other.get("/ui/static/other.js")
	other.want(404)
}

// TestPages_AreForTheirOrigin: what http.headers allows pages of other origins is for the API. They must not read the
// pages, which hold CSRF tokens, nor send their forms.
func TestPages_AreForTheirOrigin(t *testing.T) {
	const origin = "https://dashboard.example.org"
	s := newSite(t, func(c *setup) {
		c.api.Headers = http.Header{
			"Access-Control-Allow-Origin": {origin}, "Access-Control-Allow-Methods": {"GET, POST", "DELETE"}, "Access-Control-Allow-Credentials": {"true"},
		}
	})
	b := s.as("alice")
	b.get("/ui/")
	token := csrfField.FindStringSubmatch(b.page)[1]
	send := func(method, path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
		if err == nil {
			r.Header.Set("Origin", origin)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		b.do(r, err)
	}
	send("GET", "/ui/", "")
	if b.status != 200 || b.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a page of another origin reads a page: %d, %v", b.status, b.header)
	}
	send("POST", "/ui/logout", "csrf="+url.QueryEscape(token))
	if b.status != 403 {
		t.Errorf("a page of another origin logs somebody out: %d", b.status)
	}
	send("GET", "/v2/", "")
	if b.header.Get("Access-Control-Allow-Origin") != origin {
		t.Errorf("it can't read the API: %v", b.header)
	}
}

// cutOff is the body of a form whose client stalls, or leaves.
type cutOff struct {
	cancel context.CancelFunc
	err    error
}

// Read implements io.Reader. net/http ends the context of a request whose connection fails, too.
func (c cutOff) Read([]byte) (int, error) {
	c.cancel()
	return 0, c.err
}

// A form that didn't arrive is never answered as a success.
func TestForm_CutOff(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/ui/login", "/ui/maintenance", "/ui/delete/web/app"} {
		for err, want := range map[error]int{os.ErrDeadlineExceeded: http.StatusRequestTimeout, io.ErrUnexpectedEOF: 0} {
			ctx, cancel := context.WithCancel(t.Context())
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, cutOff{cancel, err})
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			w.Code = 0
			func() {
				defer func() {
					if broken := recover(); (broken == http.ErrAbortHandler) != (want == 0) { //nolint:errorlint // net/http compares the same way
						t.Errorf("%s after %v: %v", path, err, broken)
					}
				}()
				s.handler.ServeHTTP(w, r)
			}()
			if w.Code != want {
				t.Errorf("%s after %v: %d, want %d", path, err, w.Code, want)
			}
		}
	}
}
