package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
)

// ciSystem gives its pipelines tokens, as GitHub and GitLab do.
type ciSystem struct {
	*httptest.Server
	t       *testing.T
	key     *ecdsa.PrivateKey
	fetches atomic.Int32
	broken  atomic.Bool
	calls   string // the issuer in its configuration, "" = its URL
	asked   func() // called when keys are fetched; nil = nobody is
}

func newCISystem(t *testing.T) *ciSystem {
	t.Helper()
	c := &ciSystem{t: t}
	c.newKey()
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.fetches.Add(1)
		if c.asked != nil {
			c.asked()
		}
		switch {
		case c.broken.Load():
			http.Error(w, "broken", http.StatusInternalServerError)
		case r.URL.Path == "/.well-known/openid-configuration":
			name := c.URL
			if c.calls != "" {
				name = c.calls
			}
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": name, "jwks_uri": c.URL + "/keys"})
		default:
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: c.key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *ciSystem) newKey() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	c.key = key
}

// token is that of a pipeline; pairs of claim and value change it, nil takes away.
func (c *ciSystem) token(change ...any) string {
	now := time.Now().Unix()
	claims := map[string]any{
		"iss": c.URL, "aud": "registry.example.org", "sub": "repo:acme/web:ref:refs/heads/main", "iat": now, "nbf": now, "exp": now + 300,
		"repository": "acme/web", "ref": "refs/heads/main", "run_attempt": 1,
	}
	for i := 0; i < len(change); i += 2 {
		if claims[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(claims, change[i].(string))
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: c.key, KeyID: "1"}}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		c.t.Fatal(err)
	}
	return raw
}

func (c *ciSystem) workloads(t *testing.T) *Workloads {
	t.Helper()
	own, err := access.NewGrant([]string{"web/**"}, []string{"push"})
	if err != nil {
		t.Fatal(err)
	}
	return NewWorkloads([]Workload{{Name: "web", Issuer: c.URL, Audience: "registry.example.org", Claims: map[string]string{"repository": "acme/web", "ref": "refs/heads/*"}, Own: own}})
}

// A pipeline exchanges its OIDC token for one of the registry, without any secret.
func TestWorkloads(t *testing.T) {
	ci := newCISystem(t)
	s := newService(t)
	s.Service.opts.Logins.Workloads = ci.workloads(t)
	q := TokenRequest{Scopes: []string{"repository:web/app:pull,push", "repository:other:pull"}, Offline: true}
	issued := s.issue(t, basic(WorkloadUser, ci.token()), q)
	if issued.Scope != "repository:web/app:pull,push" || issued.User != "workload:web" || !s.may(issued.Token, Push, "web/app") || s.may(issued.Token, Pull, "other") {
		t.Errorf("got %+v", issued)
	}
	if again := s.issue(t, request(""), TokenRequest{Refresh: issued.Refresh, Scopes: q.Scopes}); again.User != "workload:web" {
		t.Errorf("refresh: %+v", again)
	}
	now := time.Now().Unix()
	for name, raw := range map[string]string{
		"another repository":         ci.token("repository", "acme/other"),
		"a repository that has ours": ci.token("repository", "acme/web/evil"),
		"a deeper ref":               ci.token("ref", "refs/heads/a/b"),
		"no such claim":              ci.token("repository", nil),
		"a claim that is a list":     ci.token("repository", []string{"acme/web"}),
		"another audience":           ci.token("aud", "sts.example.org"),
		"no audience":                ci.token("aud", nil),
		"another issuer":             ci.token("iss", "https://evil.example.org"),
		"no issuer":                  ci.token("iss", nil),
		"expired":                    ci.token("exp", now-120),
		"without an end":             ci.token("exp", nil),
		"not yet valid":              ci.token("nbf", now+600),
		"no token":                   "secret",
		"signature cut off":          ci.token()[:strings.LastIndexByte(ci.token(), '.')+1],
	} {
		_, err := s.Issue(basic(WorkloadUser, raw), q)
		if refused := refusal(t, err); refused.Err.Code != oci.CodeUnauthorized {
			t.Errorf("%s: %v", name, refused)
		}
	}
	rule := Workload{Name: "web", Issuer: ci.URL, Audience: "registry.example.org", Claims: map[string]string{"repository": "acme/web", "ref": "refs/heads/*"}}
	rule.Own, _ = access.NewGrant([]string{"web/app"}, []string{"push"})
	s.Service.opts.Logins.Workloads.Set([]Workload{rule})
	if !s.may(issued.Token, Push, "web/app") {
		t.Error("the token does not count after its rule got other rights")
	}
	rule.Claims = map[string]string{"repository": "acme/web", "ref": "refs/heads/release"}
	s.Service.opts.Logins.Workloads.Set([]Workload{rule})
	if s.may(issued.Token, Push, "web/app") {
		t.Error("the token counts after its rule asks for other claims")
	}
	if _, err := s.Issue(request(""), TokenRequest{Refresh: issued.Refresh}); err == nil {
		t.Error("the refresh token counts after its rule asks for other claims")
	}
	s.Service.opts.Logins.Workloads.Set(nil)
	if s.may(issued.Token, Push, "web/app") {
		t.Error("the token of a workload counts after its rule is gone")
	}
}

// Claims that are numbers match as the token writes them, and the log says which claim did
// not match.
func TestWorkloads_Claims(t *testing.T) {
	ci := newCISystem(t)
	w := NewWorkloads(nil)
	for _, tt := range []struct {
		value   any
		pattern string
		cause   string // "" = the token is accepted
	}{
		{12345678, "12345678", ""},
		{json.Number("9007199254740993"), "9007199254740993", ""},
		{"12345678", "12345678", ""},
		{true, "true", ""},
		{12345678, "87654321", `web: the claim project_id is "12345678", not "87654321"`},
		{nil, "1", "web: the claim project_id is missing"},
		{[]int{1}, "1", "web: the claim project_id is missing, or no string, boolean or number"},
	} {
		w.Set([]Workload{
			{Name: "elsewhere", Issuer: "https://ci.example.org"},
			{Name: "other", Issuer: ci.URL, Audience: "other"},
			{Name: "web", Issuer: ci.URL, Audience: "registry.example.org", Claims: map[string]string{"project_id": tt.pattern, "ref": "refs/heads/*"}},
		})
		who, _, err := w.login(t.Context(), ci.token("project_id", tt.value))
		if tt.cause == "" {
			if err != nil || who.Name != "web" {
				t.Errorf("%v for %s: %v, %v", tt.value, tt.pattern, who.Name, err)
			}
			continue
		}
		got := refusal(t, err)
		for _, want := range []string{tt.cause, "elsewhere: another issuer", `other: the audience is not "other"`} {
			if got.Reason != UnknownWorkload || !strings.Contains(got.Error(), want) {
				t.Errorf("%v for %s: %v, want %s", tt.value, tt.pattern, got, want)
			}
		}
	}
}

// The issuer is asked seldom, however many tokens nobody knows the key of.
func TestWorkloads_FetchesAreBounded(t *testing.T) {
	ci := newCISystem(t)
	w := ci.workloads(t)
	if _, _, err := w.login(t.Context(), ci.token()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.login(t.Context(), ci.token("iss", "http://127.0.0.1:1")); err == nil {
		t.Error("a token of nobody we know counts")
	}
	good := ci.token()
	ci.newKey() // the issuer keeps the id, so tokens of the new key fail by their signature
	for range 100 {
		if _, _, err := w.login(t.Context(), ci.token()); err == nil {
			t.Fatal("a token with a wrong signature counts")
		}
	}
	if _, _, err := w.login(t.Context(), good); err != nil {
		t.Error(err)
	}
	if n := ci.fetches.Load(); n > 2 {
		t.Errorf("%d fetches", n)
	}
}

func TestWorkloads_IssuerAway(t *testing.T) {
	ci := newCISystem(t)
	ci.broken.Store(true)
	_, _, err := ci.workloads(t).login(t.Context(), ci.token())
	if refused := refusal(t, err); refused.Reason != IssuerUnavailable || refused.Err.Code != oci.CodeUnavailable || refused.RetryAfter == 0 {
		t.Errorf("got %v", refused)
	}
	ci.broken.Store(false)
	ci.calls = "https://other.example.org"
	_, _, err = ci.workloads(t).login(t.Context(), ci.token())
	var refused *Refusal
	if !errors.As(err, &refused) || refused.Reason != IssuerUnavailable {
		t.Errorf("an issuer that calls itself otherwise: %v", err)
	}
}

// A pipeline that logs in while its rule is replaced gets nothing by the new rule, which
// does not let it in.
func TestWorkloads_ReplacedDuringLogin(t *testing.T) {
	ci := newCISystem(t)
	s := newService(t)
	w := ci.workloads(t)
	s.Service.opts.Logins.Workloads = w
	next := w.current.Load().rules[0].Workload
	next.Claims = map[string]string{"repository": "acme/web", "ref": "refs/tags/*"}
	ci.asked = func() { w.Set([]Workload{next}) }
	issued, err := s.Issue(basic(WorkloadUser, ci.token()), TokenRequest{Scopes: []string{"repository:web/app:pull,push"}, Offline: true})
	if err == nil && (s.may(issued.Token, Push, "web/app") || s.may(issued.Token, Pull, "web/app")) {
		t.Errorf("the token of the former rule counts: %s", issued.Scope)
	}
	if w.Names() == nil || ci.fetches.Load() == 0 {
		t.Error("the rule was not replaced")
	}
}
