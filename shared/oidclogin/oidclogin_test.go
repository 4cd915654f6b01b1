package oidclogin

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"slipway/shared/oidctest"
)

// open makes a client of the provider at issuer.
func open(issuer string) *Provider {
	return New(Options{
		Issuer: issuer, ClientID: "registry", ClientSecret: oidctest.Secret, NameClaim: "preferred_username", GroupsClaim: "groups", Cookie: "login",
		ValidName: func(name string) bool { return !strings.Contains(name, ":") },
	})
}

// begin begins a login as a browser does and returns the query of the provider's page and the cookie.
func begin(t *testing.T, p *Provider, callback string) (url.Values, *http.Cookie) {
	t.Helper()
	w := httptest.NewRecorder()
	if err := p.Begin(w, httptest.NewRequest(http.MethodGet, "/ui/login/provider", http.NoBody), callback, "/ui/x?y=z&a=b c"); err != nil {
		return nil, nil
	}
	to, err := url.Parse(w.Header().Get("Location"))
	cookies := w.Result().Cookies()
	if err != nil || len(cookies) != 1 {
		t.Fatalf("begins with %v, %v", w.Header(), err)
	}
	return to.Query(), cookies[0]
}

// finish comes back from the provider.
func finish(p *Provider, callback string, cookie *http.Cookie, back url.Values) (Person, string, error) {
	r := httptest.NewRequest(http.MethodGet, "/ui/login/callback?"+back.Encode(), http.NoBody)
	if cookie != nil {
		r.AddCookie(cookie)
	}
	return p.Finish(httptest.NewRecorder(), r, callback, nil)
}

// TestFinish: only what the provider has signed for this service and this login lets anybody in,
// and nobody loses the groups that a rule may deny something to.
func TestFinish(t *testing.T) {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	const callback = "https://registry.example.org/ui/login/callback"
	const refused, unavailable = "refused", "unavailable"
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprint("group ", i)
	}
	for what, tt := range map[string]struct {
		change func(p *oidctest.Scripted, back url.Values)
		want   string // "" = anna of the groups is let in
		groups []string
		more   bool // she may be in others
	}{
		"right":                 {func(*oidctest.Scripted, url.Values) {}, "", []string{"dev"}, false},
		"another state":         {func(_ *oidctest.Scripted, back url.Values) { back.Set("state", "x") }, refused, nil, false},
		"no state":              {func(_ *oidctest.Scripted, back url.Values) { back.Del("state") }, refused, nil, false},
		"refused there":         {func(_ *oidctest.Scripted, back url.Values) { back.Set("error", "access_denied") }, refused, nil, false},
		"another nonce":         {func(p *oidctest.Scripted, _ url.Values) { p.Claims["nonce"] = "x" }, refused, nil, false},
		"no subject":            {func(p *oidctest.Scripted, _ url.Values) { delete(p.Claims, "sub") }, refused, nil, false},
		"a long subject":        {func(p *oidctest.Scripted, _ url.Values) { p.Claims["sub"] = strings.Repeat("x", 256) }, refused, nil, false},
		"a subject with a zero": {func(p *oidctest.Scripted, _ url.Values) { p.Claims["sub"] = "1\x00" }, refused, nil, false},
		"the longest subject":   {func(p *oidctest.Scripted, _ url.Values) { p.Claims["sub"] = strings.Repeat("x", 255) }, "", []string{"dev"}, false},
		"no nonce":              {func(p *oidctest.Scripted, _ url.Values) { delete(p.Claims, "nonce") }, refused, nil, false},
		"another audience":      {func(p *oidctest.Scripted, _ url.Values) { p.Claims["aud"] = "other" }, refused, nil, false},
		"another issuer":        {func(p *oidctest.Scripted, _ url.Values) { p.Claims["iss"] = "https://evil.example" }, refused, nil, false},
		"expired":               {func(p *oidctest.Scripted, _ url.Values) { p.Claims["exp"] = time.Now().Add(-time.Hour).Unix() }, refused, nil, false},
		"another key":           {func(p *oidctest.Scripted, _ url.Values) { p.Signer = other }, refused, nil, false},
		"a name with a colon":   {func(p *oidctest.Scripted, _ url.Values) { p.Claims["preferred_username"] = "robot:ci" }, refused, nil, false},
		"no name": {func(p *oidctest.Scripted, _ url.Values) {
			p.Claims["preferred_username"] = ""
			p.Info = map[string]any{"sub": "1"}
		}, refused, nil, false},
		"groups elsewhere": {func(p *oidctest.Scripted, _ url.Values) {
			delete(p.Claims, "groups")
			p.Info = map[string]any{"sub": "1", "groups": []string{"ops"}, "preferred_username": "root"}
		}, "", []string{"ops"}, false},
		"groups of another": {func(p *oidctest.Scripted, _ url.Values) {
			delete(p.Claims, "groups")
			p.Info = map[string]any{"sub": "2", "groups": []string{"ops"}}
		}, refused, nil, false},
		"no groups in reach": {func(p *oidctest.Scripted, _ url.Values) { delete(p.Claims, "groups") }, unavailable, nil, false},
		"no groups anywhere": {func(p *oidctest.Scripted, _ url.Values) {
			delete(p.Claims, "groups")
			p.Info = map[string]any{"sub": "1"}
		}, "", nil, true},
		"an empty list":          {func(p *oidctest.Scripted, _ url.Values) { p.Claims["groups"] = []string{} }, "", nil, false},
		"one group":              {func(p *oidctest.Scripted, _ url.Values) { p.Claims["groups"] = "dev" }, "", []string{"dev"}, false},
		"1,000 groups":           {func(p *oidctest.Scripted, _ url.Values) { p.Claims["groups"] = many[:1000] }, "", many[:1000], false},
		"1,001 groups":           {func(p *oidctest.Scripted, _ url.Values) { p.Claims["groups"] = many }, "", many[:1000], true},
		"groups of another type": {func(p *oidctest.Scripted, _ url.Values) { p.Claims["groups"] = map[string]any{"dev": true} }, "", nil, true},
		"a group that is none": {func(p *oidctest.Scripted, _ url.Values) {
			p.Claims["groups"] = []any{"dev", map[string]any{"name": "ops"}}
		}, "", []string{"dev"}, true},
		"a group too long": {func(p *oidctest.Scripted, _ url.Values) {
			p.Claims["groups"] = []string{"dev", strings.Repeat("x", 201)}
		}, "", []string{"dev"}, true},
		"issued to another":  {func(p *oidctest.Scripted, _ url.Values) { p.Claims["azp"] = "other" }, refused, nil, false},
		"issued to a number": {func(p *oidctest.Scripted, _ url.Values) { p.Claims["azp"] = 1 }, refused, nil, false},
		"issued to this one": {func(p *oidctest.Scripted, _ url.Values) { p.Claims["azp"] = "registry" }, "", []string{"dev"}, false},
		"for others, too": {func(p *oidctest.Scripted, _ url.Values) {
			p.Claims["aud"], p.Claims["azp"] = []string{"other", "registry"}, "registry"
		}, "", []string{"dev"}, false},
		"for others, issued to one": {func(p *oidctest.Scripted, _ url.Values) {
			p.Claims["aud"], p.Claims["azp"] = []string{"other", "registry"}, "other"
		}, refused, nil, false},
		"for others, issued to nobody": {func(p *oidctest.Scripted, _ url.Values) { p.Claims["aud"] = []string{"registry", "other"} }, refused, nil, false},
		"no signature":                 {func(p *oidctest.Scripted, _ url.Values) { p.Alg = "none" }, refused, nil, false},
		"signed with the secret":       {func(p *oidctest.Scripted, _ url.Values) { p.Alg = "HS256" }, refused, nil, false},
	} {
		t.Run(what, func(t *testing.T) {
			p := oidctest.NewScripted(t)
			o := open(p.URL)
			to, cookie := begin(t, o, callback)
			if to.Get("code_challenge_method") != "S256" || to.Get("redirect_uri") != callback {
				t.Fatalf("begins with %v", to)
			}
			if !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/ui/login/" {
				t.Errorf("the cookie is %v", cookie)
			}
			p.Change = tt.change
			who, next, err := finish(o, callback, cookie, p.Authorize(to))
			if tt.want == "" {
				challenge := oauth2.S256ChallengeFromVerifier(p.Form.Get("code_verifier"))
				if err != nil || who.Name != "anna" || !slices.Equal(who.Groups, tt.groups) || who.MoreGroups != tt.more || challenge != to.Get("code_challenge") || next != "/ui/x?y=z&a=b c" {
					t.Errorf("got %+v, %q, %v by %v", who, next, err, p.Form)
				}
				return
			}
			if target := (*RefusedError)(nil); errors.As(err, &target) != (tt.want == refused) || errors.Is(err, ErrUnavailable) != (tt.want == unavailable) {
				t.Errorf("got %+v, %v", who, err)
			}
		})
	}
}

// A browser whose cookie is missing, empty or that of another login gets nowhere, even with the state of its own choice.
func TestFinish_Cookie(t *testing.T) {
	const callback = "http://registry.example.org/ui/login/callback"
	p := oidctest.NewScripted(t)
	o := open(p.URL)
	to, cookie := begin(t, o, callback)
	_, other := begin(t, o, callback)
	if cookie.Secure {
		t.Error("the cookie of a page without TLS would not come back")
	}
	for what, tt := range map[string]struct {
		cookie *http.Cookie
		state  string
	}{
		"none":            {nil, to.Get("state")},
		"another login's": {other, to.Get("state")},
		"no secret":       {&http.Cookie{Name: "login", Value: "."}, attempt{}.state()},
		"empty":           {&http.Cookie{Name: "login"}, attempt{}.state()},
		"not readable":    {&http.Cookie{Name: "login", Value: "x.%zz"}, attempt{secret: "x"}.state()},
	} {
		_, _, err := finish(o, callback, tt.cookie, url.Values{"code": {"c"}, "state": {tt.state}})
		if refused := (*RefusedError)(nil); !errors.As(err, &refused) || p.Form != nil {
			t.Errorf("%s: %v, and the provider got %v", what, err, p.Form)
		}
	}
}

// A person named by email is let in only if the provider has verified the address.
func TestPerson_Email(t *testing.T) {
	p := New(Options{NameClaim: "email", ValidName: func(string) bool { return true }})
	for _, tt := range []struct {
		verified any
		ok       bool
	}{{true, true}, {"true", true}, {false, false}, {"false", false}, {nil, false}, {1, false}} {
		claims := map[string]any{"email": "anna@example.org", "email_verified": tt.verified}
		who, err := p.person(claims)
		if ok := err == nil && who.Name == "anna@example.org"; ok != tt.ok {
			t.Errorf("verified %v: %+v, %v", tt.verified, who, err)
		}
		if missing := p.missing(claims); missing != (tt.verified == nil) {
			t.Errorf("verified %v: missing is %v", tt.verified, missing)
		}
	}
}

// TestRefusedError: the log names the claim that is missing, and what the provider said if it said anything.
func TestRefusedError(t *testing.T) {
	o := New(Options{NameClaim: "matrix_id", ValidName: func(name string) bool { return strings.HasPrefix(name, "@") }})
	_, missing := o.person(map[string]any{})
	_, list := o.person(map[string]any{"matrix_id": []any{"@anna:example.org"}})
	_, email := New(Options{NameClaim: "email", ValidName: func(string) bool { return true }}).person(map[string]any{"email": "anna@example.org"})

	const callback = "https://registry.example.org/ui/login/callback"
	p := oidctest.NewScripted(t)
	registry := open(p.URL)
	to, cookie := begin(t, registry, callback)
	_, _, denied := finish(registry, callback, cookie, url.Values{"state": {to.Get("state")}, "error": {"access_denied"}})
	_, _, scope := finish(registry, callback, cookie, url.Values{"state": {to.Get("state")}, "error": {"invalid_scope"}, "error_description": {"Invalid scopes: openid groups"}})
	for _, tt := range []struct {
		err  error
		want string
	}{
		{missing, "The identity provider gives you no name that can be used here: the claim matrix_id is missing"},
		{list, `The identity provider gives you no name that can be used here: the claim matrix_id is "[@anna:example.org]"`},
		{email, "The identity provider has not verified your email address: the claim email_verified is missing"},
		{denied, `The identity provider refused the login: "access_denied"`},
		{scope, `The identity provider refused the login: "invalid_scope": "Invalid scopes: openid groups"`},
		{&RefusedError{Reason: "No user has it."}, "No user has it."},
	} {
		if tt.err == nil || tt.err.Error() != tt.want {
			t.Errorf("got %v, want %s", tt.err, tt.want)
		}
	}
}

// TestBegin_Unreachable: a provider that doesn't answer is asked once for all who wait for it.
func TestBegin_Unreachable(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "away", http.StatusBadGateway)
	}))
	defer server.Close()
	p := open(server.URL)
	p.pause = time.Hour
	for range 3 {
		w := httptest.NewRecorder()
		err := p.Begin(w, httptest.NewRequest(http.MethodGet, "/ui/login/provider", http.NoBody), "https://registry.example.org/ui/login/callback", "")
		if !errors.Is(err, ErrUnavailable) || len(w.Header()) != 0 {
			t.Errorf("begins: %v, %v", err, w.Header())
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

// TestFinish_Hostile: a provider, or a machine that stands in for it, gets neither the service's memory nor a
// secret that it passes on to another host.
func TestFinish_Hostile(t *testing.T) {
	var stolen atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		t.Errorf("%s %s was followed with %q and %v", r.Method, r.URL, body, r.Header["Authorization"])
		stolen.Add(1)
	}))
	defer thief.Close()
	for _, path := range []string{"/.well-known/openid-configuration", "/token", "/keys", "/info"} {
		for what, answer := range map[string]http.HandlerFunc{
			"302": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, thief.URL, http.StatusFound) },
			"307": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
			},
			"endless": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				block := []byte(`"` + strings.Repeat("x", 64<<10) + `",`)
				_, err := w.Write([]byte(`{"x":[`))
				for sent := 0; err == nil; sent++ {
					if sent > 1024 { // 64 MiB, beyond what buffers between the two hold
						t.Errorf("%s was read without a bound", path)
						return
					}
					_, err = w.Write(block)
				}
			},
		} {
			t.Run(path+" "+what, func(t *testing.T) {
				p := oidctest.NewScripted(t)
				p.Broken = map[string]http.HandlerFunc{path: answer}
				o := open(p.URL)
				to, cookie := begin(t, o, p.URL+"/")
				if to == nil { // the configuration was refused
					return
				}
				p.Change = func(p *oidctest.Scripted, _ url.Values) { delete(p.Claims, "groups") } // they are asked for at /info
				_, _, err := finish(o, p.URL+"/", cookie, p.Authorize(to))
				refused := (*RefusedError)(nil)
				if !errors.Is(err, ErrUnavailable) && !errors.As(err, &refused) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
	if stolen.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

// TestTransport_Plain: a provider that is reached encrypted cannot have secrets sent in the clear.
func TestTransport_Plain(t *testing.T) {
	p := New(Options{Issuer: "https://id.example.org"})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://id.example.org/token", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.client.Do(r)
	if err == nil {
		resp.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "not https") {
		t.Errorf("a plain token endpoint: %v", err)
	}
}

// FuzzParseAttempt: a cookie that a browser made up is refused, or holds what it says.
func FuzzParseAttempt(f *testing.F) {
	for _, text := range []string{"", ".", "x", "x.", "x.%2Fui%2F", "x.%zz", "x.y.z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, ok := parseAttempt(text)
		if again, same := parseAttempt(a.String()); ok && (!same || again != a || a.secret == "") {
			t.Errorf("%q is %+v, and that %+v", text, a, again)
		}
	})
}
