package web

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/identity/personal"
)

// TestTokens: administrators of the registry revoke tokens of people who can no longer log in.
func TestTokens(t *testing.T) {
	var lines bytes.Buffer
	acts := audit.New(zap.NewNop(), audit.Unclosed{Writer: &lines})
	var people *personal.Tokens
	s := newSite(t, withPeople, func(c *setup) { people, c.pages.Audit = c.auth.Logins.People, acts })
	secrets := map[string]string{}
	for _, owner := range []string{"alice", "oidc:gone", "oidc:<b>"} {
		var err error
		for _, note := range []string{"first", "second"} {
			if secrets[owner], err = people.Create(t.Context(), owner, personal.Token{Note: note, Expires: time.Now().Add(time.Hour)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	works := func(owner string) bool {
		t.Helper()
		_, err := people.Login(t.Context(), owner, secrets[owner])
		if err != nil && !errors.Is(err, personal.ErrUnknown) {
			t.Fatal(err)
		}
		return err == nil
	}
	id := func(owner string) string { return strings.Split(secrets[owner], "_")[2] }
	for _, who := range []string{"alice", "lead"} { // lead administers some repositories only
		b := s.as(who)
		b.get("/ui/tokens")
		b.want(404, "-oidc:gone", "-/ui/tokens")
		b.get("/ui/account")
		b.post("/ui/tokens/revoke", "owner", "oidc:gone", "token", id("oidc:gone"))
		b.want(404)
	}
	b := s.browser()
	b.get("/ui/tokens")
	b.want(404)

	b = s.as("owner")
	b.get("/ui/tokens")
	b.want(200, "oidc:gone", "oidc:&lt;b&gt;", "-<b>", ">alice</th>", id("alice"), "-"+secrets["alice"], "-Revoke all")
	page := b.page
	b.post("/ui/tokens/revoke", "owner", "alice", "token", id("oidc:gone"), "sure", "yes")
	b.want(404)
	b.page = ""
	b.post("/ui/tokens/revoke", "owner", "alice", "token", id("alice"))
	b.want(403)
	if !works("alice") || !works("oidc:gone") {
		t.Error("a form without its CSRF token, or with another owner, revokes")
	}
	b.page = page
	b.post("/ui/tokens/revoke", "owner", "alice", "token", id("alice"))
	b.want(200, "Revoke the token "+id("alice")+" of alice?", `name="owner" value="alice"`, `name="token" value="`+id("alice")+`"`)
	if !works("alice") {
		t.Error("a token is revoked before the answer")
	}
	b.post("/ui/tokens/revoke", "owner", "alice", "token", id("alice"), "sure", "yes")
	b.want(200, "Revoked.", "-"+id("alice"), ">alice</th>")
	b.get("/ui/tokens?owner=oidc:gone")
	b.want(200, "->alice</th>", "Revoke all of oidc:gone")
	b.post("/ui/tokens/revoke", "owner", "oidc:gone")
	b.want(200, "Revoke all tokens of oidc:gone?")
	b.post("/ui/tokens/revoke", "owner", "oidc:gone", "sure", "yes")
	b.want(200, "-oidc:gone", ">alice</th>")
	b.get("/ui/tokens?owner=oidc:gone")
	b.want(200, "oidc:gone has no tokens.")
	if works("alice") || works("oidc:gone") || !works("oidc:<b>") {
		t.Error("other tokens than those of the forms are revoked")
	}
	if err := acts.Close(); err != nil {
		t.Fatal(err)
	}
	revoked := regexp.MustCompile(`"event":"token revoked","who":"owner"[^\n]*"status":204`)
	if got := len(revoked.FindAllString(lines.String(), -1)); got != 3 || !strings.Contains(lines.String(), id("alice")+" of alice") {
		t.Errorf("the audit log has %d revocations:\n%s", got, lines.String())
	}
}
