package e2e

import (
	"fmt"
	"strings"
	"testing"

	"slipway/shared/oidctest"
)

// An existing user and a new one log in at a real provider. While the provider is down, the relay starts and accepts
// passwords.
func TestSingleSignOn(t *testing.T) {
	s := newSite(t)
	client := oidctest.Start(t, "relay", s.url+"/ui/login/callback")
	s.env = []string{
		"RELAY_AUTH_OIDC_ISSUER=" + client, "RELAY_AUTH_OIDC_CLIENTID=relay", "RELAY_AUTH_OIDC_CLIENTSECRET=" + oidctest.Secret,
		"RELAY_AUTH_OIDC_NAME=Example ID", "RELAY_AUTH_OIDC_SERVERNAME=localhost", "RELAY_HTTP_PUBLICURL=" + s.url,
	}
	s.start()
	anna, bob := s.name+"anna", s.name+"bob"
	s.says(0, nil, "user", "create", anna, "--matrix-id", "@"+anna+":localhost", "--config", s.configure())
	b := newBrowser(t, s.url)
	login := func(who, path string) {
		t.Helper()
		b.get(path) // which leads to the login page
		b.sees("Log in with Example ID")
		b.click(".provider a")
		oidctest.LogIn(b.tab, who)
	}
	logout := func() {
		t.Helper()
		b.click("form[action$=logout] button")
		b.sees("You are logged out.")
		b.tab.Forget()
	}
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.window(width, 800, scheme)
			b.get("/ui/login")
			s.wantNoFaults(b, fmt.Sprintf("/ui/login at %d, %s", width, scheme))
		}
	}
	b.window(1280, 800, "light")
	login(anna, "/ui/account")
	b.sees("@" + anna + ":localhost")
	b.sees("Current password")
	s.wantNoFaults(b, "/ui/account")
	logout()

	login(bob, "/ui/")
	b.sees("No user has the Matrix ID @" + bob + ":localhost.")
	b.tab.Forget()
	if text := s.says(0, nil, "user", "list", "--config", s.configure()); strings.Contains(text, bob) {
		t.Errorf("bob has a user:\n%s", text)
	}
	s.stop()
	s.env = append(s.env, "RELAY_AUTH_OIDC_CREATE=true")
	s.start()
	login(bob, "/ui/account")
	b.sees("You have no password.")
	s.says(0, nil, "user", "delete", bob, "--yes", "--config", s.configure())
	b.get("/ui/account")
	b.sees("Log in with Example ID") // the session has ended with the user
	b.tab.Forget()

	// Another browser can't finish a login that was begun elsewhere.
	b.get("/ui/login/callback?code=guess&state=guess")
	b.sees("This login was not begun in this browser")

	s.stop()
	s.env[0] = "RELAY_AUTH_OIDC_ISSUER=http://127.0.0.1:1"
	s.start()
	b.get("/ui/login")
	b.click(".provider a")
	b.sees("The identity provider cannot be reached.")
	b.login("admin", adminPassword)
}
