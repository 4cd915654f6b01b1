package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/relaytest"
	"slipway/shared/oidclogin"
	"slipway/shared/oidctest"
)

// signIn lets people of a provider log in whose Matrix IDs are on example.org.
func signIn(issuer string, create bool) func(*Options) {
	return func(o *Options) {
		o.SignIn = &SignIn{Name: "Example ID", Issuer: issuer, ServerName: "example.org", Create: create, Provider: oidclogin.New(oidclogin.Options{
			Issuer: issuer, ClientID: "relay", ClientSecret: oidctest.Secret, NameClaim: "preferred_username", Cookie: "relay_login",
			ValidName: func(name string) bool { _, ok := account.MatrixIDOf(name, "example.org"); return ok },
		})}
	}
}

// hasSession reports whether the browser holds the cookie of a session.
func (b *browser) hasSession() bool {
	b.Helper()
	u, err := url.Parse(b.base + "/ui/")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range b.client.Jar.Cookies(u) {
		if c.Name == account.SessionCookie {
			return true
		}
	}
	return false
}

func TestProvider(t *testing.T) {
	p := oidctest.NewScripted(t)
	b := newBrowserWith(t, signIn(p.URL, true))
	b.get("/ui/messages?state=dead")
	b.want(200, `href="/ui/login/provider?next=%2fui%2fmessages%3fstate%3ddead"`, "Log in with Example ID")
	b.get("/ui/login/provider?next=" + url.QueryEscape("/ui/messages?state=dead"))
	b.want(200, "<h1>Messages</h1>", "anna", "-Users")
	if b.at != "/ui/messages?state=dead" {
		t.Errorf("led to %s", b.at)
	}
	b.get("/ui/account")
	b.want(200, "@anna:example.org", "You have no password.", "-Current password")
	b.post("/ui/logout")
	b.want(200, "You are logged out.")
	b.get("/ui/")
	b.want(200, "Log in with Example ID")
	for range 61 { // none is a failure
		b.get("/ui/login/provider?next=https://evil.example/")
		b.want(200, "Nothing can send yet")
	}
	b.admin()
	b.get("/ui/users/2")
	b.want(200, "The user logs in at the identity provider, too")
	b.get("/ui/users/1")
	b.want(200, "-The user logs in at the identity provider")
}

// TestProvider_Refused: nobody gets a session by an answer that isn't for this login, this relay and a user of it.
func TestProvider_Refused(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(p *oidctest.Scripted, back url.Values)
		status int
		says   string
	}{
		"right":            {nil, 200, "Nothing can send yet"},
		"unknown":          {func(p *oidctest.Scripted, _ url.Values) { p.Claims["preferred_username"] = "bob" }, 403, "No user has the Matrix ID @bob:example.org."},
		"another server":   {func(p *oidctest.Scripted, _ url.Values) { p.Claims["preferred_username"] = "anna:evil.example" }, 403, "gives you no name"},
		"no name":          {func(p *oidctest.Scripted, _ url.Values) { p.Claims["preferred_username"] = "" }, 403, "gives you no name"},
		"another state":    {func(_ *oidctest.Scripted, back url.Values) { back.Set("state", "x") }, 403, "was not begun in this browser"},
		"another nonce":    {func(p *oidctest.Scripted, _ url.Values) { p.Claims["nonce"] = "x" }, 403, "is not valid"},
		"another audience": {func(p *oidctest.Scripted, _ url.Values) { p.Claims["aud"] = "registry" }, 403, "is not valid"},
		"expired":          {func(p *oidctest.Scripted, _ url.Values) { p.Claims["exp"] = time.Now().Add(-time.Hour).Unix() }, 403, "is not valid"},
		"unsigned":         {func(p *oidctest.Scripted, _ url.Values) { p.Alg = "none" }, 403, "is not valid"},
		"disabled there":   {func(_ *oidctest.Scripted, back url.Values) { back.Set("error", "access_denied") }, 403, "refused the login"},
		"broken": {func(p *oidctest.Scripted, _ url.Values) {
			p.Broken = map[string]http.HandlerFunc{"/token": http.NotFound, "/keys": http.NotFound}
		}, 403, "refused the login"},
		"away": {func(p *oidctest.Scripted, _ url.Values) {
			p.Broken = map[string]http.HandlerFunc{"/token": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }}
		}, 502, "cannot be reached"},
	} {
		t.Run(what, func(t *testing.T) {
			p := oidctest.NewScripted(t)
			p.Change = tt.change
			b := newBrowserWith(t, signIn(p.URL, false))
			v, err := b.service.Authenticate(b.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
			if err != nil {
				t.Fatal(err)
			}
			name, id, password := "anna", "@anna:example.org", "password"
			if _, err := b.service.CreateUser(b.Context(), v, account.UserInput{Name: &name, MatrixID: &id, Password: &password}); err != nil {
				t.Fatal(err)
			}
			b.get("/ui/login/provider")
			b.want(tt.status, tt.says)
			if b.hasSession() != (tt.status == 200) {
				t.Errorf("there is a session: %v", b.hasSession())
			}
			b.login("anna", "password") // stays as the fallback
			b.want(200, "Nothing can send yet")
		})
	}
}

// Without a provider nothing of it is there; one that is away leaves the passwords.
func TestProvider_Away(t *testing.T) {
	b := newBrowser(t)
	b.get("/ui/login")
	b.want(200, "-/ui/login/provider")
	for _, path := range []string{"/ui/login/provider", "/ui/login/callback"} {
		b.get(path)
		b.want(404)
	}
	b = newBrowserWith(t, signIn("http://127.0.0.1:1", true))
	b.get("/ui/login/provider")
	b.want(502, "The identity provider cannot be reached.", "Log in with Example ID")
	b.admin()
	b.want(200, "Overview")
	b.post("/ui/logout")
	for range 70 { // which a page of another site can cause, so they don't count
		b.get("/ui/login/callback?state=guess&code=guess")
		b.want(403, "was not begun in this browser")
	}
	if !strings.Contains(b.page, `name="password"`) {
		t.Error("the login page has no password")
	}
}
