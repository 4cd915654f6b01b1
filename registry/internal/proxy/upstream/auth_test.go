package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"slipway/registry/internal/oci"
)

// changingRegistry is a registry whose challenges and tokens change while a client remembers
// the former ones.
type changingRegistry struct {
	mu     sync.Mutex
	valid  string // the token that it accepts; "" = it asks for none
	realm  string
	refuse func(w http.ResponseWriter) // answers a wrong token; nil = as without one
	asked  []string                    // tokens
}

func (c *changingRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	login := r.Header.Get("Authorization")
	c.asked = append(c.asked, login)
	switch {
	case c.valid == "" || login == "Bearer "+c.valid:
		w.Write(layer)
	case login != "" && c.refuse != nil:
		c.refuse(w)
	default:
		c.challenge(w, c.realm)
	}
}

func (*changingRegistry) challenge(w http.ResponseWriter, realm string) {
	w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=r", realm))
	w.WriteHeader(http.StatusUnauthorized)
}

// set changes what the registry accepts and returns the requests since the last call.
func (c *changingRegistry) set(change func()) (asked []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	asked, c.asked = c.asked, nil
	return asked
}

// tokens serves a token.
func tokens(t *testing.T, token func() string) string {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"token": token(), "expires_in": 3600})
	}).String()
}

// A remembered token or challenge that leads nowhere any more must not outlive the request.
func TestRemembered_RefusedToken(t *testing.T) {
	reg := &changingRegistry{}
	current := func() string {
		reg.mu.Lock()
		defer reg.mu.Unlock()
		return reg.valid
	}
	realm := tokens(t, current)
	useless := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }).String()
	u := serve(t, reg.ServeHTTP)
	for name, refuse := range map[string]func(http.ResponseWriter){
		"the same challenge":    nil,
		"another realm":         func(w http.ResponseWriter) { reg.challenge(w, useless) },
		"a realm elsewhere":     func(w http.ResponseWriter) { reg.challenge(w, "https://elsewhere.example/token") },
		"no realm":              func(w http.ResponseWriter) { reg.challenge(w, "") },
		"401 without challenge": func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) },
		"403":                   func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) },
		"400":                   func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) },
	} {
		reg.set(func() { reg.valid, reg.realm, reg.refuse = "one", realm, refuse })
		c := client(t, u, nil)
		for _, repository := range []oci.Name{"a", "b"} {
			check(t, fetch(t.Context(), c, repository, layer))
		}
		reg.set(func() { reg.valid = "two" })
		for range 2 {
			for _, repository := range []oci.Name{"a", "b", "c"} {
				if err := fetch(t.Context(), c, repository, layer); err != nil {
					t.Errorf("%s: %s: %v", name, repository, err)
				}
			}
		}
		if asked := reg.set(func() {}); asked[len(asked)-2] != "Bearer two" {
			t.Errorf("%s: the new token is not remembered: %q", name, asked)
		}
	}
}

// The token server fails, but the registry has another one by now, or needs none any more.
func TestRemembered_FailingTokenServer(t *testing.T) {
	for _, fails := range []string{"gone", "401", "404", "500", "no token"} {
		for _, open := range []bool{true, false} {
			reg := &changingRegistry{valid: "one"}
			u := serve(t, reg.ServeHTTP)
			failing := false
			former := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				var status int
				fmt.Sscan(fails, &status)
				switch {
				case failing && status != 0:
					w.WriteHeader(status)
				case failing:
					io.WriteString(w, "{}")
				default:
					io.WriteString(w, `{"token":"one"}`)
				}
			}))
			defer former.Close()
			reg.realm = former.URL
			c := client(t, u, nil)
			check(t, fetch(t.Context(), c, "a", layer))
			if failing = true; fails == "gone" {
				former.Close()
			}
			reg.set(func() {
				if reg.valid = "two"; open {
					reg.valid = ""
				}
				reg.realm = tokens(t, func() string { return "two" })
			})
			for _, repository := range []oci.Name{"b", "a"} {
				if err := fetch(t.Context(), c, repository, layer); err != nil {
					t.Errorf("%s, open %v: %s: %v", fails, open, repository, err)
				}
			}
		}
	}
}

// While nothing has changed, a refusal costs no more requests than the login itself.
func TestRemembered_FreshTokenIsRefused(t *testing.T) {
	reg := &changingRegistry{valid: "one"}
	token, fetched := "one", 0
	reg.realm = tokens(t, func() string { fetched++; return token })
	c := client(t, serve(t, reg.ServeHTTP), nil)
	check(t, fetch(t.Context(), c, "a", layer))
	reg.set(func() {})
	token, fetched = "of nobody", 0
	if err := fetch(t.Context(), c, "b", layer); ReasonOf(err) != Denied {
		t.Errorf("a repository that isn't ours: %v", err)
	}
	if asked := reg.set(func() {}); len(asked) != 1 || fetched != 1 {
		t.Errorf("%q, and %d tokens", asked, fetched)
	}
	reg.refuse = func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }
	fetched = 0
	if err := fetch(t.Context(), c, "b", layer); ReasonOf(err) != Denied {
		t.Errorf("a repository that isn't ours, with 403: %v", err)
	}
	if asked := reg.set(func() {}); len(asked) != 2 || fetched != 1 {
		t.Errorf("with 403 %q, and %d tokens", asked, fetched)
	}
	check(t, fetch(t.Context(), c, "a", layer))
	if asked := reg.set(func() {}); fmt.Sprint(asked) != "[Bearer one]" {
		t.Errorf("a refusal made the client forget what others need: %q", asked)
	}
}

// A server to which the registry redirects refuses no login.
func TestRemembered_RefusalElsewhere(t *testing.T) {
	elsewhere := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	redirects := false
	reg := &changingRegistry{valid: "one", realm: tokens(t, func() string { return "one" })}
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if redirects && r.Header.Get("Authorization") != "" {
			reg.set(func() { reg.asked = append(reg.asked, r.Header.Get("Authorization")) })
			http.Redirect(w, r, elsewhere.String(), http.StatusTemporaryRedirect)
			return
		}
		reg.ServeHTTP(w, r)
	})
	c := client(t, u, nil)
	check(t, fetch(t.Context(), c, "a", layer))
	reg.set(func() {})
	redirects = true
	if err := fetch(t.Context(), c, "a", layer); ReasonOf(err) != Denied {
		t.Errorf("%v", err)
	}
	redirects = false
	check(t, fetch(t.Context(), c, "a", layer))
	if asked := reg.set(func() {}); asked[len(asked)-1] != "Bearer one" {
		t.Errorf("the token was forgotten: %q", asked)
	}
}

// A token server without its own lifetime, or with one in another form.
func TestToken_Lifetimes(t *testing.T) {
	for _, answer := range []string{
		`{"token":"one"}`, `{"token":"one","expires_in":"3600"}`, `{"token":"one","expires_in":3600.0}`,
		"\ufeff" + `{"access_token":"one","expires_in":null}`, `{"token":"one","expires_in":1e300}`,
	} {
		fetched := 0
		realm := serve(t, func(w http.ResponseWriter, _ *http.Request) { fetched++; io.WriteString(w, answer) })
		reg := &changingRegistry{valid: "one", realm: realm.String()}
		c := client(t, serve(t, reg.ServeHTTP), nil)
		for range 2 {
			if err := fetch(t.Context(), c, "a", layer); err != nil {
				t.Errorf("%s: %v", answer, err)
			}
		}
		if fetched != 1 {
			t.Errorf("%s: fetched %d times", answer, fetched)
		}
	}
}
