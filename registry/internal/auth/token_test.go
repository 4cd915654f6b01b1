package auth

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/keyring"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/identity/token"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

func bearer(raw string) *http.Request { return request("Bearer " + raw) }

func mustRules(t testing.TB, list ...access.Rule) *access.Rules {
	t.Helper()
	r, err := access.New(nil, list)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func allow(who, repositories string, rights ...string) access.Rule {
	return access.Rule{Who: []string{who}, Repositories: []string{repositories}, Allow: rights}
}

// tokenServer signs tokens as somebody else's server does.
func tokenServer(t *testing.T, rules *access.Rules) (*Authorizer, func(subject string, scopes ...token.Scope) string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := token.NewKeys(map[string]ed25519.PublicKey{"k": public})
	a := NewAuthorizer(Options{
		Rules:      func() *access.Rules { return rules },
		Tokens:     ServerTokens{token.NewVerifier(token.VerifierOptions{Issuer: "auth", Audience: "registry", Keys: func() *token.Keys { return keys }})},
		TokenRealm: func(*http.Request) string { return "https://auth.example.org/token" },
		Service:    `the "registry"`,
	})
	return a, func(subject string, scopes ...token.Scope) string {
		raw, err := token.Sign(&token.Claims{Issuer: "auth", Audience: token.Audience{"registry"}, Subject: subject, Expires: token.At(time.Now().Add(time.Minute)), Access: scopes}, "k", private)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
}

func scope(name string, actions ...string) token.Scope {
	return token.Scope{Type: "repository", Name: name, Actions: actions}
}

// The challenge names exactly what the request needs, in the form of distribution.
func TestChallenge(t *testing.T) {
	a, sign := tokenServer(t, access.Bearers())
	const begin = `Bearer realm="https://auth.example.org/token",service="the \"registry\""`
	for _, tt := range []struct {
		name string
		r    *http.Request
		want Access
		text string
	}{
		{"version check", request(""), Access{Action: Ping}, ""},
		{"pull", request(""), Access{Action: Pull, Repository: "a/b"}, `,scope="repository:a/b:pull"`},
		{"push", request(""), Access{Action: Push, Repository: "a"}, `,scope="repository:a:pull,push"`},
		{"delete", request(""), Access{Action: Delete, Repository: "a"}, `,scope="repository:a:delete"`},
		{"mount", request(""), Access{Action: Push, Repository: "a", From: "b"}, `,scope="repository:a:pull,push repository:b:pull"`},
		{"mount from itself", request(""), Access{Action: Push, Repository: "a", From: "a"}, `,scope="repository:a:pull,push"`},
		{"catalog", request(""), Access{Action: Catalog}, `,scope="registry:catalog:*"`},
		{"administration", request(""), Access{Action: Administer}, `,scope="registry:slipway:*"`},
		{"Basic", basic("alice", "secret"), Access{Action: Pull, Repository: "a"}, `,scope="repository:a:pull"`},
		{"bad token", bearer("abc"), Access{Action: Pull, Repository: "a"}, `,scope="repository:a:pull",error="invalid_token"`},
		{"narrow token", bearer(sign("alice", scope("a", "pull"))), Access{Action: Push, Repository: "a"}, `,scope="repository:a:pull,push",error="insufficient_scope"`},
		{"token for the target of a mount only", bearer(sign("alice", scope("a", "pull", "push"))), Access{Action: Push, Repository: "a", From: "b"}, `,scope="repository:a:pull,push repository:b:pull",error="insufficient_scope"`},
		{"token for another repository", bearer(sign("alice", scope("a/b", "*"))), Access{Action: Pull, Repository: "a"}, `,scope="repository:a:pull",error="insufficient_scope"`},
		{"token without access", bearer(sign("alice")), Access{Action: Catalog}, `,scope="registry:catalog:*",error="insufficient_scope"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := a.Authorize(tt.r, tt.want)
			refused := refusal(t, err)
			if refused.Challenge != begin+tt.text || refused.Err.Code != oci.CodeUnauthorized {
				t.Errorf("got %v %s\nwant %s", refused, refused.Challenge, begin+tt.text)
			}
		})
	}
}

func TestServerTokens_Grant(t *testing.T) {
	a, sign := tokenServer(t, access.Bearers())
	for _, tt := range []struct {
		token string
		want  Access
		user  string
	}{
		{sign("alice"), Access{Action: Ping}, "alice"},
		{sign("", scope("a", "pull")), Access{Action: Pull, Repository: "a"}, ""},
		{sign("alice", scope("a", "*")), Access{Action: Delete, Repository: "a"}, "alice"},
		{sign("alice", scope("a", "pull"), scope("a", "push"), scope("b", "pull")), Access{Action: Push, Repository: "a", From: "b"}, "alice"},
		{sign("alice", token.Scope{Type: "registry", Name: "catalog", Actions: []string{"*"}}), Access{Action: Catalog}, "alice"},
	} {
		g, err := a.Authorize(bearer(tt.token), tt.want)
		if err != nil || g.User != tt.user || g.Unlimited() {
			t.Errorf("%+v: %+v, %v", tt.want, g, err)
		}
	}
}

// With rules, a token of a token server allows only what the rules allow its subject, too.
func TestServerTokens_RulesCountToo(t *testing.T) {
	a, sign := tokenServer(t, mustRules(t, allow("alice", "team/**", "push")))
	token := sign("alice", scope("team/a", "*"), scope("other", "*"))
	for _, from := range []oci.Name{"", "secret"} { // a blob that alice may not read is uploaded: another token wouldn't help
		if _, err := a.Authorize(bearer(token), Access{Action: Push, Repository: "team/a", From: from}); err != nil {
			t.Errorf("push, mounting from %q: %v", from, err)
		}
	}
	for _, want := range []Access{{Action: Push, Repository: "other"}, {Action: Delete, Repository: "team/a"}} {
		_, err := a.Authorize(bearer(token), want)
		if refused := refusal(t, err); refused.Reason != Forbidden || refused.Err.Code != oci.CodeDenied {
			t.Errorf("%+v: %v", want, refused)
		}
	}
}

// service is the built-in service with the users alice and bob and robots.
type service struct {
	*Service
	*Authorizer
	users  *tested
	robots *robot.Accounts
	rules  *access.Rules
	store  storage.Store
}

func newService(t testing.TB, list ...access.Rule) *service {
	t.Helper()
	s := &service{rules: mustRules(t, list...)}
	s.users = open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", "hidden"))
	store := memory.New()
	s.store, s.robots = store, robot.New(store, zap.NewNop())
	keys, err := keyring.Open(t.Context(), store, time.Hour, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	current := func() *access.Rules { return s.rules }
	logins := &Logins{Htpasswd: s.users.Htpasswd, Robots: s.robots}
	s.Service = NewService(ServiceOptions{Rules: current, Logins: logins, Keys: keys, Service: "registry", Lifetime: 5 * time.Minute, RefreshLifetime: time.Hour})
	s.Authorizer = NewAuthorizer(Options{Rules: current, Logins: logins, Tokens: s.Service, Service: "registry", TokenRealm: func(*http.Request) string { return "http://r/auth/token" }})
	return s
}

func (s *service) issue(t testing.TB, r *http.Request, q TokenRequest) Issued {
	t.Helper()
	issued, err := s.Issue(r, q)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// may reports whether a token lets its bearer do that.
func (s *service) may(raw string, action Action, name oci.Name) bool {
	_, err := s.Authorize(bearer(raw), Access{Action: action, Repository: name})
	return err == nil
}

func TestService_GrantsWhatTheRulesAllow(t *testing.T) {
	s := newService(t, allow("anyone", "public/**", "pull"), allow("alice", "**", "admin"), allow("bob", "team/*", "push"), allow("bob", "team/*", "list"))
	anonymous, alice, bob := request(""), basic("alice", "secret"), basic("bob", "hidden")
	for _, tt := range []struct {
		name  string
		r     *http.Request
		asked []string
		want  string
	}{
		{"anonymous", anonymous, []string{"repository:public/a:pull,push"}, "repository:public/a:pull"},
		{"anonymous, as skopeo asks", basic("", ""), []string{"repository:public/a:pull"}, "repository:public/a:pull"},
		{"anonymous elsewhere", anonymous, []string{"repository:team/a:pull"}, ""},
		{"user", bob, []string{"repository:team/a:pull,push,delete"}, "repository:team/a:pull,push"},
		{"all actions", bob, []string{"repository:team/a:*"}, "repository:team/a:pull,push"},
		{"several parameters", bob, []string{"repository:team/a:pull,push", "repository:public/b:pull"}, "repository:team/a:pull,push repository:public/b:pull"},
		{"several in one parameter", bob, []string{"repository:team/a:push repository:public/b:push,pull"}, "repository:team/a:push repository:public/b:pull"},
		{"plugin", bob, []string{"repository(plugin):team/a:pull"}, "repository(plugin):team/a:pull"},
		{"catalog", bob, []string{"registry:catalog:*"}, "registry:catalog:*"},
		{"catalog for one who lists nothing", anonymous, []string{"registry:catalog:*"}, ""},
		{"administration", bob, []string{"registry:slipway:*"}, ""},
		{"administrator", alice, []string{"registry:slipway:*"}, "registry:slipway:*"},
		{"nonsense", alice, []string{"x", "repository:a", ":::", "repository:A:pull", "repository:a:fetch", "file:/etc:pull"}, ""},
		{"nothing", alice, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := s.issue(t, tt.r, TokenRequest{Scopes: tt.asked}).Scope; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The audit log names a robot in one way, whether its login is accepted or not.
func TestRefusedRobot_HasTheNameOfTheRules(t *testing.T) {
	s := newService(t, allow("anyone", "**", "pull"))
	_, err := s.Issue(basic("robot+ci", "slipway_robot_x"), TokenRequest{})
	if got := refusal(t, err).User; got != "robot:ci" {
		t.Errorf("refused as %q", got)
	}
	_, err = s.Authorize(basic("robot+ci", "slipway_robot_x"), Access{Action: Pull, Repository: "a"})
	if got := refusal(t, err).User; got != "robot:ci" {
		t.Errorf("refused as %q", got)
	}
}

func TestService_RefusesWrongCredentials(t *testing.T) {
	s := newService(t, allow("anyone", "**", "pull"))
	for name, tt := range map[string]struct {
		r    *http.Request
		q    TokenRequest
		want Reason
	}{
		"wrong password":              {basic("alice", "hidden"), TokenRequest{}, WrongPassword},
		"unknown user":                {basic("eve", "secret"), TokenRequest{}, UnknownUser},
		"unknown robot":               {basic("robot+ci", "slipway_robot_x"), TokenRequest{}, UnknownRobot},
		"bearer":                      {bearer("x"), TokenRequest{}, BadHeader},
		"wrong password by form":      {request(""), TokenRequest{Password: true, User: "alice", Secret: "x"}, WrongPassword},
		"right header but wrong form": {basic("alice", "secret"), TokenRequest{Password: true, User: "alice", Secret: "x"}, WrongPassword},
		"robot without a name":        {basic("robot+", "slipway_robot_x"), TokenRequest{}, UnknownRobot},
		"password of 100 kB":          {basic("alice", strings.Repeat("x", 100_000)), TokenRequest{}, BadHeader},
		"refresh token":               {request(""), TokenRequest{Refresh: "x"}, BadToken},
		"workload without rules":      {basic(WorkloadUser, "x.y.z"), TokenRequest{}, UnknownUser},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Issue(tt.r, tt.q)
			refused := refusal(t, err)
			if refused.Reason != tt.want || refused.Err.Code != oci.CodeUnauthorized || refused.Challenge != `Basic realm="registry"` {
				t.Errorf("got %v, challenge %s", refused, refused.Challenge)
			}
		})
	}
	_, err := s.Issue(basic("alice", "secret"), TokenRequest{Service: "other"})
	var told *oci.Error
	if !errors.As(err, &told) || told.Code != oci.CodeUnsupported {
		t.Errorf("token for another service: %v", err)
	}
}

func TestService_TokensEndWithTheirCredential(t *testing.T) {
	s := newService(t, allow("users", "**", "push"))
	scopes := []string{"repository:a:pull,push"}
	alice := s.issue(t, basic("alice", "secret"), TokenRequest{Scopes: scopes, Offline: true})
	bob := s.issue(t, basic("bob", "hidden"), TokenRequest{Scopes: scopes, Offline: true})
	if !s.may(alice.Token, Push, "a") || !s.may(bob.Token, Push, "a") || s.may(alice.Token, Push, "b") {
		t.Fatal("tokens do not count for what they were issued for")
	}
	s.users.edit(t, line(t, "alice", "changed"))
	for name, issued := range map[string]Issued{"changed password": alice, "removed user": bob} {
		_, err := s.Authorize(bearer(issued.Token), Access{Action: Pull, Repository: "a"})
		if refused := refusal(t, err); refused.Reason != RevokedToken || !strings.Contains(refused.Challenge, "invalid_token") {
			t.Errorf("%s: %v", name, refused)
		}
		_, err = s.Issue(request(""), TokenRequest{Refresh: issued.Refresh})
		if refused := refusal(t, err); refused.Reason != RevokedToken {
			t.Errorf("%s: refresh token: %v", name, refused)
		}
	}
	if err := os.Remove(s.users.path); err != nil {
		t.Fatal(err)
	}
	_ = s.users.Reload() // that is refused
	_, err := s.Authorize(bearer(alice.Token), Access{Action: Pull, Repository: "a"})
	if refused := refusal(t, err); refused.Err.Code != oci.CodeUnavailable {
		t.Errorf("without a password file: %v", refused)
	}
}

// A password that is changed, or removed, while a login waits for its comparison gives no
// token that counts.
func TestService_CredentialChangesDuringTheLogin(t *testing.T) {
	for name, left := range map[string]string{"changed": line(t, "alice", "changed"), "removed": line(t, "bob", "hidden")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t, allow("users", "**", "push"))
				release := s.users.hold()
				issued := make(chan Issued, 1)
				go func() {
					got, _ := s.Issue(basic("alice", "secret"), TokenRequest{Offline: true})
					issued <- got
				}()
				synctest.Wait() // for the comparison
				s.users.edit(t, left)
				release()
				got := <-issued
				if got.Refresh == "" || s.may(got.Token, Ping, "") {
					t.Error("the token counts")
				}
				if _, err := s.Issue(request(""), TokenRequest{Refresh: got.Refresh}); err == nil {
					t.Error("the refresh token counts")
				}
			})
		})
	}
}

// A changed rule counts for tokens that are out.
func TestService_RulesAreAskedAgain(t *testing.T) {
	s := newService(t, allow("alice", "**", "push"))
	issued := s.issue(t, basic("alice", "secret"), TokenRequest{Scopes: []string{"repository:a:pull,push"}})
	s.rules = mustRules(t, allow("alice", "**", "pull"))
	if !s.may(issued.Token, Pull, "a") || s.may(issued.Token, Push, "a") {
		t.Error("the rules of now do not count")
	}
}

func TestService_Refresh(t *testing.T) {
	s := newService(t, allow("users", "**", "push"))
	first := s.issue(t, request(""), TokenRequest{Password: true, User: "alice", Secret: "secret", Offline: true})
	if first.Refresh == "" {
		t.Fatal("no refresh token")
	}
	if s.may(first.Refresh, Ping, "") {
		t.Error("a refresh token is taken for an access token")
	}
	if _, err := s.Issue(request(""), TokenRequest{Refresh: first.Token}); err == nil {
		t.Error("an access token is taken for a refresh token")
	}
	second := s.issue(t, request(""), TokenRequest{Refresh: first.Refresh, Offline: true, Scopes: []string{"repository:a:push"}})
	if second.User != "alice" || !s.may(second.Token, Ping, "") || second.Scope != "repository:a:push" {
		t.Errorf("got %+v", second)
	}
	old, err1 := s.refresh.Verify(first.Refresh, time.Now())
	renewed, err2 := s.refresh.Verify(second.Refresh, time.Now())
	if err1 != nil || err2 != nil || renewed.Expires.Time().After(old.Expires.Time()) {
		t.Errorf("a refresh token outlives the one it replaces: %v, %v, %+v", err1, err2, renewed)
	}
	if s.issue(t, request(""), TokenRequest{Offline: true}).Refresh != "" {
		t.Error("an anonymous caller gets a refresh token")
	}
}

// A client that has a login sends it only when asked, so the catalog asks; one without gets
// an anonymous token and sees what anyone may.
func TestService_CatalogAsksForALogin(t *testing.T) {
	s := newService(t, allow("anyone", "public/**", "pull", "list"), allow("alice", "**", "pull", "list"))
	want := Access{Action: Catalog}
	_, err := s.Authorize(request(""), want)
	if refused := refusal(t, err); refused.Reason != NoCredentials || !strings.Contains(refused.Challenge, `scope="registry:catalog:*"`) {
		t.Errorf("without a token: %v", refused)
	}
	for name, tt := range map[string]struct {
		r    *http.Request
		sees bool // of what is not public
	}{"anonymous": {request(""), false}, "alice": {basic("alice", "secret"), true}} {
		issued := s.issue(t, tt.r, TokenRequest{Scopes: []string{"registry:catalog:*"}})
		g, err := s.Authorize(bearer(issued.Token), want)
		if err != nil || !g.Sees("public/a") || g.Sees("team/a") != tt.sees {
			t.Errorf("%s: %v, %v", name, err, g)
		}
	}
	if g, err := s.Authorize(basic("alice", "secret"), want); err != nil || !g.Sees("team/a") {
		t.Errorf("with Basic: %v", err)
	}
}

func TestService_Robots(t *testing.T) { synctest.Test(t, testRobots) }

func testRobots(t *testing.T) {
	s := newService(t, access.Rule{Who: []string{"anyone"}, Repositories: []string{"ci/frozen"}, Deny: []string{"push"}})
	create := func(name string, expires time.Time) string {
		secret, err := s.robots.Create(t.Context(), robot.Robot{Name: name, Repositories: []string{"ci/**"}, Allow: []string{"push"}, Expires: expires})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	secret := create("ci", time.Time{})
	scopes := []string{"repository:ci/a:pull,push,delete", "repository:ci/frozen:push", "repository:b:pull"}
	issued := s.issue(t, basic("robot+ci", secret), TokenRequest{Scopes: scopes, Offline: true})
	if issued.Scope != "repository:ci/a:pull,push" || issued.User != "robot:ci" {
		t.Errorf("got %+v", issued)
	}
	if _, err := s.Authorize(basic("robot+ci", secret), Access{Action: Push, Repository: "ci/a"}); err != nil {
		t.Errorf("Basic without a token: %v", err)
	}
	if err := s.robots.Revoke(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	create("ci", time.Time{}) // another robot of the same name
	for name, r := range map[string]*http.Request{"token": bearer(issued.Token), "password": basic("robot+ci", secret)} {
		if _, err := s.Authorize(r, Access{Action: Push, Repository: "ci/a"}); err == nil {
			t.Errorf("the %s of a revoked robot counts", name)
		}
	}
	if _, err := s.Issue(request(""), TokenRequest{Refresh: issued.Refresh}); err == nil {
		t.Error("the refresh token of a revoked robot counts")
	}
	// What has expired is refused though its token has not.
	short := create("short", time.Now().Add(time.Minute))
	issued = s.issue(t, basic("robot+short", short), TokenRequest{Scopes: scopes})
	if !s.may(issued.Token, Push, "ci/a") {
		t.Error("the token of a robot does not count")
	}
	time.Sleep(time.Minute)
	if s.may(issued.Token, Push, "ci/a") {
		t.Error("the token of an expired robot counts")
	}
}

func TestService_TokensOfOthers(t *testing.T) {
	s, other := newService(t, allow("users", "**", "admin")), newService(t, allow("users", "**", "admin"))
	issued := other.issue(t, basic("alice", "secret"), TokenRequest{Scopes: []string{"repository:a:pull"}})
	if s.may(issued.Token, Pull, "a") {
		t.Error("a token with the keys of another registry counts")
	}
	for name, claims := range map[string]token.Claims{
		"kind that does not exist": {Own: &token.Own{Kind: "root"}},
		"certificate":              {Own: &token.Own{Kind: "cert"}},
		"workload without rules":   {Own: &token.Own{Kind: "workload"}},
		"user without a stamp":     {Own: &token.Own{Kind: "user"}},
		"without its own part":     {},
	} {
		claims.Issuer, claims.Subject, claims.Audience, claims.Expires = issuer, "alice", token.Audience{"registry"}, token.At(time.Now().Add(time.Minute))
		claims.Access = []token.Scope{scope("a", "*")}
		raw, err := s.Service.opts.Keys.Sign(&claims)
		if err != nil {
			t.Fatal(err)
		}
		if s.may(raw, Push, "a") {
			t.Errorf("%s: counts", name)
		}
	}
}

func TestParseScopes_IsBounded(t *testing.T) {
	many := strings.Repeat("repository:a:pull ", 1000)
	if n := len(parseScopes([]string{many})); n != maxScopes {
		t.Errorf("%d scopes", n)
	}
	if s := parseScopes([]string{"repository:" + strings.Repeat("a", maxScope) + ":pull"}); s != nil {
		t.Errorf("%v", s)
	}
}

// The detail of a refusal is what docker's engine needs to give up.
func TestForbidden_HasADetail(t *testing.T) {
	s := newService(t, allow("users", "a", "pull"))
	_, err := s.Authorize(basic("alice", "secret"), Access{Action: Push, Repository: "a"})
	detail, _ := json.Marshal(refusal(t, err).Err.Detail)
	if !strings.Contains(string(detail), `"push"`) {
		t.Errorf("%s", detail)
	}
}

func TestCertificates(t *testing.T) {
	rules := mustRules(t, allow("cert:build-7", "a", "push"), allow("anyone", "b", "pull"))
	a := NewAuthorizer(Options{Rules: func() *access.Rules { return rules }, Certificates: true})
	for _, tt := range []struct {
		name   string
		common string
		dns    []string
		want   bool
	}{
		{"common name", "build-7", nil, true},
		{"DNS name", "other", []string{"build-7"}, true},
		{"no rule names it", "build-8", nil, false},
		{"none", "", nil, false},
	} {
		r := request("")
		r.TLS = verified(tt.common, tt.dns)
		if _, err := a.Authorize(r, Access{Action: Push, Repository: "a"}); (err == nil) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
		if _, err := a.Authorize(r, Access{Action: Pull, Repository: "b"}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := a.Authorize(basic("alice", "old"), Access{Action: Pull, Repository: "b"}); err != nil {
		t.Errorf("credentials where nobody can log in: %v", err)
	}
	r := request("")
	r.TLS = verified("build-7", nil)
	r.TLS.VerifiedChains = nil // asked for, but not verified
	if _, err := a.Authorize(r, Access{Action: Push, Repository: "a"}); err == nil {
		t.Error("a certificate counts that nobody has verified")
	}
}

func verified(common string, dns []string) *tls.ConnectionState {
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: common}, DNSNames: dns}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
}
