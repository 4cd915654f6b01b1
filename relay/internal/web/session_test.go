package web

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relaytest"
	ui "slipway/shared/web"
)

func TestLogin(t *testing.T) {
	b := newBrowser(t)
	b.get("/ui/messages?state=dead")
	b.want(200, "Log in", `value="/ui/messages?state=dead"`)
	b.post("/ui/login", "name", "admin", "password", "wrong", "next", "/ui/messages")
	b.want(401, "The name or the password is wrong.", `role="alert"`, `value="admin"`, "-wrong\"")
	b.post("/ui/login", "name", relaytest.AdminName, "password", relaytest.AdminPassword, "next", "/ui/messages?state=dead")
	b.want(200, "<h1>Messages</h1>")
	if b.at != "/ui/messages?state=dead" {
		t.Errorf("led to %s", b.at)
	}
	b.post("/ui/logout")
	b.want(200, "You are logged out.")
	b.get("/ui/")
	b.want(200, "Log in", "-Overview")
}

// TestCookie: the session's cookie is out of reach for scripts and other sites,
// and a new one at each login.
func TestCookie(t *testing.T) {
	b := newBrowser(t)
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.admin()
	first := b.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Lax", "Path=/"} {
		if !strings.Contains(first, want) {
			t.Errorf("cookie %q lacks %s", first, want)
		}
	}
	u, err := url.Parse(b.base + "/ui/")
	if err != nil {
		t.Fatal(err)
	}
	old := b.client.Jar.Cookies(u)[0].Value
	b.post("/ui/login", "name", relaytest.AdminName, "password", relaytest.AdminPassword)
	if now := b.client.Jar.Cookies(u)[0].Value; now == old {
		t.Error("the session is the same after another login")
	}
	b.client.Jar.SetCookies(u, []*http.Cookie{{Name: account.SessionCookie, Value: old}})
	b.get("/ui/")
	b.want(http.StatusSeeOther)
	b.client.Jar.SetCookies(u, []*http.Cookie{{Name: account.SessionCookie, Value: "forged"}})
	b.get("/ui/applications")
	b.want(http.StatusSeeOther)
}

// A public URL of https:// makes the cookie secure even if the proxy in front isn't a trusted one.
func TestCookie_PublicURL(t *testing.T) {
	for url, want := range map[string]bool{"": false, "http://relay.example.org": false, "https://relay.example.org": true} {
		b := newBrowserWith(t, func(o *Options) { o.PublicURL = url })
		b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		b.admin()
		if cookie := b.header.Get("Set-Cookie"); cookie == "" || strings.Contains(cookie, "; Secure") != want {
			t.Errorf("public URL %q: cookie %q, want Secure: %v", url, cookie, want)
		}
	}
}

func TestLoginLimit(t *testing.T) {
	b := newBrowser(t)
	for range 30 {
		b.post("/ui/login", "name", "admin", "password", "wrong")
		if b.status == http.StatusTooManyRequests {
			b.want(429, "Too many failed attempts")
			if b.header.Get("Retry-After") == "" {
				t.Error("the page has no Retry-After")
			}
			return
		}
	}
	t.Error("30 wrong passwords in a row are let through")
}

func TestLongForms(t *testing.T) {
	b := newBrowser(t)
	long := strings.Repeat("x", ui.MaxForm)
	b.post("/ui/login", "name", long, "password", "wrong")
	b.want(413, "A form may have 2097152 bytes.")
	b.admin()
	b.post("/ui/applications/new", "name", long, "target", "new")
	b.want(413, "A form may have 2097152 bytes.")
}

func TestForgedForms(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.get("/ui/applications/new")
	b.page = ""
	b.post("/ui/applications/new", "name", "x", "target", "new")
	b.want(403, "out of date")
	b.post("/ui/applications/new", "name", "x", "target", "new", "csrf", "guess")
	b.want(403, "out of date")
	for _, h := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+"/ui/login", strings.NewReader("name=admin&password="+url.QueryEscape(relaytest.AdminPassword)))
		if err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set(h[0], h[1])
		}
		b.do(req, err)
		b.want(403, "Cross-site requests are refused")
	}
	b.get("/ui/applications")
	b.want(200, "-<th scope=\"row\">")
}

// TestPolicy: nothing on a page needs script or style that is not the
// stylesheet's, and the browser is told so.
func TestPolicy(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassDead, Code: "<script>alert(5)</script>", Reason: "<script>alert(6)</script>"})
	app := b.app("<script>alert(1)</script>", room)
	path := b.send(app, `<img src=x onerror="alert(1)">`, `<img src="http://evil.example/x.png" onerror="alert(2)"> [x](javascript:alert(3)) <script>alert(4)</script> <b onclick="x">bold</b>`)
	for _, p := range []string{"/ui/", "/ui/applications", "/ui/applications/new", "/ui/applications/1", "/ui/applications/1/delete", "/ui/messages", path, "/ui/rooms", "/ui/rooms?check", "/ui/users", "/ui/users/new", "/ui/users/1", "/ui/users/1/delete", "/ui/account", "/ui/nothing"} {
		b.get(p)
		csp := b.header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", p, csp)
		}
		for _, bad := range []string{"<script", " style=", " onerror=\"", " onclick=\"", "=\"javascript:", "<img src=x", "src=\"http"} {
			body := b.page
			for _, own := range []string{"theme", "web"} {
				body = strings.Replace(body, `<script src="/ui/static/`+own+`.`, "", 1)
			}
			if strings.Contains(body, bad) {
				t.Errorf("%s holds %q", p, bad)
			}
		}
		if b.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be stored", p)
		}
	}
}

func TestStatic(t *testing.T) {
	b := newBrowser(t)
	b.get("/ui/login")
	_, rest, _ := strings.Cut(b.page, `rel="stylesheet" href="`)
	path, _, _ := strings.Cut(rest, `"`)
	b.get(path)
	b.want(200, "light-dark(")
	if b.header.Get("ETag") == "" || !strings.Contains(b.header.Get("Cache-Control"), "immutable") || b.header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("headers %v", b.header)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+path, nil)
	if err == nil {
		req.Header.Set("If-None-Match", b.header.Get("ETag"))
	}
	b.do(req, err)
	b.want(http.StatusNotModified)
	b.get("/ui/static/other.css")
	b.want(404)
}

// A trusted proxy reports whether the browser uses HTTPS; from any other client that is a claim.
func TestCookie_BehindAProxy(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/ui/", http.NoBody) // from 192.0.2.1
	r.Header.Set("X-Forwarded-Proto", "https")
	for network, want := range map[string]bool{"192.0.2.0/24": true, "198.51.100.0/24": false} {
		web := &Web{o: Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix(network)}}}
		if got := web.secure(r); got != want {
			t.Errorf("proxies in %s: secure %v", network, got)
		}
	}
}
