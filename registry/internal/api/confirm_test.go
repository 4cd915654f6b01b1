package api

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/memory"
)

// revoking revokes a caller's rights when a request that was let in has a body, while that is read, as happens to one
// whose body takes minutes to arrive; else as soon as it was let in.
type revoking struct {
	Authorizer
	revoke func()
}

func (a *revoking) Authorize(r *http.Request, want auth.Access) (auth.Grant, error) {
	g, err := a.Authorizer.Authorize(r, want)
	switch {
	case r.Header.Get("Revoke") == "":
	case r.ContentLength > 0:
		r.Body = &revokingBody{r.Body, a.revoke}
	default:
		a.revoke()
	}
	return g, err
}

type revokingBody struct {
	io.ReadCloser
	revoke func()
}

func (b *revokingBody) Read(p []byte) (int, error) {
	b.revoke()
	return b.ReadCloser.Read(p)
}

// No change is made by a request whose sender has lost the right to it on the way.
func TestChanges_ByRevokedCallers(t *testing.T) {
	all, err := access.New(nil, []access.Rule{allow("u", "**", "admin")})
	if err != nil {
		t.Fatal(err)
	}
	none, err := access.New(nil, []access.Rule{allow("u", "a", "pull")})
	if err != nil {
		t.Fatal(err)
	}
	var rules atomic.Pointer[access.Rules]
	rules.Store(all)
	store := memory.New()
	robots := robot.New(store, zap.NewNop())
	users := &auth.Accounts{Users: openUsers(t, "other"), Rules: rules.Load, Cost: bcrypt.MinCost}
	s := newServer(t, withAuth(t, rules.Load), func(s *setup) {
		s.store, s.options.Robots, s.options.Users = store, robots, users
		s.options.Auth = &revoking{s.options.Auth, func() { rules.Store(none) }}
	})
	const user = "Basic dTpw" // u:p
	client := s.client.Transport
	s.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		r.Header.Set("Authorization", user)
		return client.RoundTrip(r)
	})
	manifest := s.image("a", "x")
	old := s.pushManifest("a", "v1", oci.MediaTypeManifest, manifest)
	blob := s.pushBlob("a", []byte("kept"))
	next := []byte(strings.Replace(string(manifest), `"schemaVersion":2`, `"schemaVersion": 2`, 1))
	fresh := []byte("new")
	upload := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)

	for name, try := range map[string]func() answer{
		"push of a manifest": func() answer {
			return s.do("PUT", "/v2/a/manifests/v1", next, "Content-Type", oci.MediaTypeManifest, "Revoke", "1")
		},
		"push of a blob": func() answer {
			return s.do("PUT", with(upload, "digest", string(digestOf(fresh))), fresh, "Revoke", "1")
		},
		"push of a blob by POST": func() answer {
			return s.do("POST", "/v2/a/blobs/uploads/?digest="+string(digestOf(fresh)), fresh, "Revoke", "1")
		},
		"mount": func() answer {
			return s.do("POST", "/v2/b/blobs/uploads/?from=a&mount="+string(blob), nil, "Revoke", "1")
		},
		"deletion of a tag":        func() answer { return s.do("DELETE", "/v2/a/manifests/v1", nil, "Revoke", "1") },
		"deletion of a manifest":   func() answer { return s.do("DELETE", "/v2/a/manifests/"+string(old), nil, "Revoke", "1") },
		"deletion of a blob":       func() answer { return s.do("DELETE", "/v2/a/blobs/"+string(blob), nil, "Revoke", "1") },
		"deletion of a repository": func() answer { return s.do("DELETE", "/v2/a/_slipway/repository", nil, "Revoke", "1") },
		"creation of a robot":      func() answer { return s.do("POST", "/v2/_slipway/robots", []byte(`{"name":"ci"}`), "Revoke", "1") },
		"revocation of a robot":    func() answer { return s.do("DELETE", "/v2/_slipway/robots/nobody", nil, "Revoke", "1") },
		"creation of a user":       func() answer { return s.do("POST", "/v2/_slipway/users", []byte(`{"name":"new"}`), "Revoke", "1") },
		"change of a user": func() answer {
			return s.do("PATCH", "/v2/_slipway/users/other", []byte(`{"disabled":true}`), "Revoke", "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules.Store(all)
			try().wantError(t, http.StatusForbidden, oci.CodeDenied)
			rules.Store(all)
			s.do("HEAD", "/v2/a/manifests/v1", nil).want(t, 200, "Docker-Content-Digest", string(old))
			s.do("HEAD", "/v2/a/blobs/"+string(blob), nil).want(t, 200)
			s.do("HEAD", "/v2/a/blobs/"+string(digestOf(fresh)), nil).want(t, 404)
			s.do("HEAD", "/v2/b/blobs/"+string(blob), nil).want(t, 404)
		})
	}
	if list, err := robots.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("robots: %v, %v", list, err)
	}
	if list, err := users.List(); err != nil || len(list) != 2 || list[0].Disabled {
		t.Errorf("users: %v, %v", list, err)
	}
}

// A thief of a password whose request for a token is on its way when the password is reset gets no token, which would outlast the reset.
func TestCreateToken_PasswordReset(t *testing.T) {
	rules := newRules(t, allow("u", "**", "admin"))
	users, people := openUsers(t), personal.New(memory.New(), "")
	accounts := &auth.Accounts{Users: users, Rules: func() *access.Rules { return rules }, Cost: bcrypt.MinCost}
	authorizer := auth.NewAuthorizer(auth.Options{Rules: accounts.Rules, Logins: &auth.Logins{Htpasswd: users, People: people}, Realm: "test"})
	s := newServer(t, func(s *setup) {
		s.options.Rights = authorizer
		s.options.Auth = &revoking{authorizer, func() {
			if _, err := accounts.Reset(t.Context(), "u"); err != nil {
				t.Error(err)
			}
		}}
	})
	body := `{"expires":"` + time.Now().Add(time.Hour).Format(time.RFC3339) + `"}`
	s.do("POST", "/v2/_slipway/tokens", []byte(body), append(basic("u", "p"), "Revoke", "1")...).wantError(t, http.StatusUnauthorized, oci.CodeUnauthorized)
	if list, err := people.List(t.Context(), "u"); err != nil || len(list) > 0 {
		t.Errorf("tokens: %v, %v", list, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
