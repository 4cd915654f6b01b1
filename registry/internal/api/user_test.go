package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"slipway/registry/internal/access"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/keyring"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/storage/memory"
)

// Nobody gets more rights by way of users and tokens than the caller has: a robot manages no users, an administrator of some
// repositories manages none, and a token makes no other one.
func TestUsers_WhoManagesThem(t *testing.T) {
	users := openUsers(t, "root", "lead", "bob")
	compiled := newRules(t, allow("root", "**", "admin"), allow("lead", "team/**", "admin"))
	rules := func() *access.Rules { return compiled }
	store := memory.New()
	robots, people := robot.New(store, zap.NewNop()), personal.New(store, "")
	keys, err := keyring.Open(t.Context(), store, time.Hour, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	logins := &auth.Logins{Htpasswd: users, Robots: robots, People: people}
	service := auth.NewService(auth.ServiceOptions{Rules: rules, Logins: logins, Keys: keys, Service: "test", Lifetime: time.Hour})
	realm := func(*http.Request) string { return "http://r/auth/token" }
	authorizer := auth.NewAuthorizer(auth.Options{Rules: rules, Logins: logins, Tokens: service, Service: "test", TokenRealm: realm})
	s := newServer(t, func(s *setup) {
		s.store, s.options.Robots, s.options.Auth, s.options.Rights = store, robots, authorizer, authorizer
		s.options.Users = &auth.Accounts{Users: users, Robots: robots, Rules: rules, Cost: bcrypt.MinCost}
	})
	secret, err := robots.Create(t.Context(), robot.Robot{Name: "ci", Repositories: []string{"**"}, Allow: []string{"admin"}})
	if err != nil {
		t.Fatal(err)
	}
	token := func(allow string) []string {
		t.Helper()
		body := `{"allow":[` + allow + `],"expires":"` + time.Now().Add(time.Hour).Format(time.RFC3339) + `"}`
		var made struct{ Username, Password string }
		if err := json.Unmarshal(s.do("POST", "/v2/_slipway/tokens", []byte(body), basic("root", "p")...).want(t, 201).body, &made); err != nil {
			t.Fatal(err)
		}
		return basic(made.Username, made.Password)
	}
	admin, pull := token(`"admin"`), token(`"pull"`)
	bearer := func(scope string) []string {
		t.Helper()
		issued, err := service.Issue(httptest.NewRequest("GET", "/auth/token", nil), auth.TokenRequest{Scopes: []string{scope}, Password: true, User: "root", Secret: "p"})
		if err != nil {
			t.Fatal(err)
		}
		return []string{"Authorization", "Bearer " + issued.Token}
	}
	pulls, all := bearer("repository:a:pull"), bearer("registry:slipway:*")
	expires := `"expires":"` + time.Now().Add(time.Hour).Format(time.RFC3339) + `"`
	for _, c := range []struct {
		who, method, path, body string
		login                   []string
		status                  int
	}{
		{"a robot with admin", "GET", "/users", "", basic("robot+ci", secret), 403},
		{"a robot with admin", "POST", "/users", `{"name":"x"}`, basic("robot+ci", secret), 403},
		{"a robot with admin", "POST", "/users/root/password", "", basic("robot+ci", secret), 403},
		{"a robot with admin", "PUT", "/account/password", `{"present":"x","new":"long enough"}`, basic("robot+ci", secret), 403},
		{"a robot with admin", "POST", "/tokens", "{" + expires + "}", basic("robot+ci", secret), 403},
		{"an administrator of some", "GET", "/users", "", basic("lead", "p"), 403},
		{"an administrator of some", "PATCH", "/users/bob", `{"disabled":true}`, basic("lead", "p"), 403},
		{"an administrator of some", "DELETE", "/users/bob", "", basic("lead", "p"), 403},
		{"an administrator of some", "GET", "/tokens?owner=bob", "", basic("lead", "p"), 403},
		{"an administrator of some", "GET", "/tokens?all=true", "", basic("lead", "p"), 403},
		{"a user", "GET", "/users", "", basic("bob", "p"), 403},
		{"a user", "GET", "/tokens", "", basic("bob", "p"), 200},
		{"a user", "DELETE", "/tokens/0123456789abcdef?owner=root", "", basic("bob", "p"), 403},
		{"a token for pulls", "GET", "/users", "", pull, 403},
		{"a token for pulls", "POST", "/tokens", `{"allow":["admin"],` + expires + `}`, pull, 403},
		{"a token for pulls", "GET", "/tokens?all=true", "", pull, 403},
		{"a token with admin", "POST", "/tokens", "{" + expires + "}", admin, 403},
		{"a token with admin", "GET", "/users", "", admin, 200},
		{"a token with admin", "POST", "/users/bob/password", "", admin, 403},
		{"a token with admin", "POST", "/users", `{"name":"y"}`, admin, 403},
		{"a bearer for pulls", "POST", "/tokens", "{" + expires + "}", pulls, 403},
		{"a bearer for pulls", "GET", "/tokens", "", pulls, 403},
		{"a bearer for pulls", "GET", "/tokens?all=true", "", pulls, 403},
		{"a bearer for pulls", "DELETE", "/tokens/0123456789abcdef", "", pulls, 403},
		{"a bearer for pulls", "GET", "/users", "", pulls, 401},
		{"a bearer for the administration", "GET", "/users", "", all, 200},
		{"a bearer for the administration", "POST", "/tokens", "{" + expires + "}", all, 403},
		{"nobody", "GET", "/users", "", nil, 401},
	} {
		if got := s.do(c.method, "/v2/_slipway"+c.path, []byte(c.body), c.login...); got.StatusCode != c.status {
			t.Errorf("%s: %s %s: %d, want %d: %s", c.who, c.method, c.path, got.StatusCode, c.status, got.body)
		}
	}
	again := []byte("{" + expires + "}")
	s.do("POST", "/v2/_slipway/tokens", again, append(basic("root", "p"), "Idempotency-Key", "k")...).want(t, 201)
	s.do("POST", "/v2/_slipway/tokens", again, append(pulls, "Idempotency-Key", "k")...).want(t, 403) // the secret isn't for it
	for caller, c := range map[string]struct {
		login []string
		all   bool
	}{"an administrator": {basic("root", "p"), true}, "a bearer for the administration": {all, true}, "a bearer for pulls": {pulls, false}} {
		var list struct{ Callers []struct{ Who string } }
		if err := json.Unmarshal(s.do("GET", "/v2/_slipway/access?repository=a", nil, c.login...).want(t, 200).body, &list); err != nil || (len(list.Callers) > 1) != c.all {
			t.Errorf("%s sees the rights of %v, %v", caller, list.Callers, err)
		}
	}
	compiled = access.UsersOnly(false) // everybody is equal, so nobody resets another's password
	if got := s.do("POST", "/v2/_slipway/users/bob/password", nil, basic("root", "p")...); got.StatusCode != 403 {
		t.Errorf("without access rules: %d: %s", got.StatusCode, got.body)
	}
}

// A client whose answer was lost asks again: the secret is the same, nothing is made twice, and the audit log has one line.
func TestOnce(t *testing.T) {
	var lines bytes.Buffer
	acts := audit.New(zap.NewNop(), audit.Unclosed{Writer: &lines})
	s := documentedServer(t, func(s *setup) { s.options.Audit = acts })
	ask := func(path, key, body string) (answer, string) {
		t.Helper()
		got := s.do("POST", "/v2/_slipway"+path, []byte(body), "Authorization", rightUser, "Idempotency-Key", key)
		var made struct{ Password string }
		_ = json.Unmarshal(got.body, &made)
		return got, made.Password
	}
	expires := `{"expires":"` + time.Now().Add(time.Hour).Format(time.RFC3339) + `"}`
	for _, c := range [][2]string{{"/robots", `{"name":"ci"}`}, {"/robots/ci/secret", ""}, {"/users", `{"name":"alice"}`}, {"/users/alice/password", ""}, {"/tokens", expires}} {
		first, secret := ask(c[0], "k", c[1])
		again, repeated := ask(c[0], "k", c[1])
		if first.StatusCode/100 != 2 || secret == "" || repeated != secret || again.StatusCode != first.StatusCode || again.Header.Get("Idempotent-Replay") != "true" {
			t.Errorf("%s: %d %s, then %d %s", c[0], first.StatusCode, first.body, again.StatusCode, again.body)
		}
	}
	if got, _ := ask("/users", "k", `{"name":"bob"}`); got.StatusCode != 409 {
		t.Errorf("another request under the key: %d", got.StatusCode)
	}
	if got, _ := ask("/users", strings.Repeat("k", 256), `{"name":"bob"}`); got.StatusCode != 400 {
		t.Errorf("a long key: %d", got.StatusCode)
	}
	if err := acts.Close(); err != nil {
		t.Fatal(err)
	}
	for _, event := range []string{"robot created", "robot rotated", "user created", "password reset", "token created"} {
		made := regexp.MustCompile(`"event":"` + event + `"[^\n]*"status":20[01]`)
		if n := len(made.FindAllString(lines.String(), -1)); n != 1 {
			t.Errorf("%s: %d lines in %s", event, n, lines.String())
		}
	}
}
