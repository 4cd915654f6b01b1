package web

import (
	"os"
	"regexp"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"slipway/registry/internal/auth"
)

// withUsers lets the pages change the password file.
func withUsers(c *setup) {
	users := &auth.Accounts{Users: c.auth.Logins.Htpasswd, Rules: c.auth.Rules, Cost: bcrypt.MinCost}
	c.api.Users, c.pages.Users = users, users
}

var shownSecret = regexp.MustCompile(`id="user-secret">([^<]+)<`)

// secret is the password on the page.
func (b *browser) secret() string {
	b.Helper()
	m := shownSecret.FindStringSubmatch(b.page)
	if m == nil {
		b.Fatalf("%s shows no password: %s", b.at, b.page)
	}
	return m[1]
}

// logsIn reports whether a password lets somebody in.
func (s *site) logsIn(user, password string) bool {
	b := s.browser()
	b.post("/ui/login", "name", user, "password", password)
	return b.status == 200 && b.at != "/ui/login"
}

func TestUsers(t *testing.T) {
	s := newSite(t, withUsers)
	bob := s.as("bob")
	bob.get("/ui/users")
	bob.want(404)
	bob.post("/ui/users", "name", "mallory")
	bob.want(404)
	bob.post("/ui/users/owner/reset", "sure", "yes")
	bob.want(404)

	bob = s.as("bob")
	owner := s.as("owner")
	owner.get("/ui/users")
	owner.want(200, ">Users</a>", "owner <span class=\"state\">administrator</span>", "New user")
	const odd = `<i>? %26`
	owner.post("/ui/users", "name", odd)
	owner.want(200, "Copy the password now", "&lt;i&gt;? %26")
	if secret := owner.secret(); !s.logsIn(odd, secret) {
		t.Error("a new user can't log in")
	}
	owner.get("/ui/users")
	owner.want(200, "-Copy the password now")
	owner.post("/ui/users", "name", "a:b")
	owner.want(400, "must not contain", `value="a:b"`)
	owner.post("/ui/users", "name", "bob")
	owner.want(409, "already")

	owner.post("/ui/users/%3Ci%3E%3F%20%2526/delete")
	owner.want(200, "Delete the user &lt;i&gt;? %26?")
	owner.post("/ui/users/%3Ci%3E%3F%20%2526/delete", "sure", "yes")
	owner.want(200, "Deleted.", "-&lt;i&gt;")

	owner.post("/ui/users/bob/disable")
	owner.want(200, "Disable bob?")
	bob.get("/ui/account")
	bob.want(200)
	owner.post("/ui/users/bob/disable", "sure", "yes")
	owner.want(200, "Changed.", `<span class="state bad">disabled</span>`)
	bob.get("/ui/account")
	bob.want(200, "Log in", "-Your account")
	if s.logsIn("bob", "bob-password") {
		t.Error("a disabled user logs in")
	}
	owner.post("/ui/users/bob/enable")
	owner.want(200, "Changed.", `-<span class="state bad">disabled</span>`)
	if !s.logsIn("bob", "bob-password") {
		t.Error("an enabled user can't log in")
	}
	owner.post("/ui/users/bob/reset", "sure", "yes")
	owner.want(200, "Copy the password now")
	if secret := owner.secret(); s.logsIn("bob", "bob-password") || !s.logsIn("bob", secret) {
		t.Error("a reset gave no other password")
	}
	owner.post("/ui/users/owner/disable", "sure", "yes")
	owner.want(409, "the last user in the password file who administers")
}

func TestUsers_OwnPassword(t *testing.T) {
	s := newSite(t, withUsers)
	elsewhere, b := s.as("bob"), s.as("bob")
	b.get("/ui/account")
	b.want(200, "Change the password")
	b.post("/ui/account/password", "present", "bob-password", "new", "a new password", "repeated", "another one")
	b.want(400, "The new passwords differ.")
	b.post("/ui/account/password", "present", "wrong", "new", "a new password", "repeated", "a new password")
	b.want(403, "The present password is wrong.", "-a new password")
	b.post("/ui/account/password", "present", "bob-password", "new", "short", "repeated", "short")
	b.want(400, "shorter than 8")
	b.post("/ui/account/password", "present", "bob-password", "new", "a new password", "repeated", "a new password")
	b.want(200, "Your password is changed.", "Log out")
	elsewhere.get("/ui/account")
	elsewhere.want(200, "-Change the password", "Log in")
	if s.logsIn("bob", "bob-password") || !s.logsIn("bob", "a new password") {
		t.Error("the password is not changed")
	}
}

func TestUsers_ReadOnlyFile(t *testing.T) {
	s := newSite(t, withUsers)
	target := s.passwords + "-secret"
	if err := os.Rename(s.passwords, target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, s.passwords); err != nil {
		t.Fatal(err)
	}
	b := s.as("owner")
	b.get("/ui/users")
	b.want(200, "The registry cannot change the password file.", "It is a symbolic link", "-New user", "-Disable")
	b.get("/ui/account")
	b.want(200, "It cannot be changed here. It is a symbolic link", "-Change the password")
	b.post("/ui/users", "name", "carl")
	b.want(409, "symbolic link")
}
