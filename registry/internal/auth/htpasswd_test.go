package auth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
)

func line(t testing.TB, user, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return user + ":" + string(hash) + "\n"
}

// write replaces the file as `registry htpasswd` does.
func write(t testing.TB, path string, lines ...string) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// tested is a password file together with what decides by it.
type tested struct {
	*Htpasswd
	*Authorizer
	path string
}

// edit replaces the lines of the file, and has it read.
func (h *tested) edit(t testing.TB, lines ...string) {
	t.Helper()
	write(t, h.path, lines...)
	if err := h.Reload(); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, o HtpasswdOptions, lines ...string) *tested {
	t.Helper()
	return openFor(t, o, access.UsersOnly(false), lines...)
}

func openFor(t testing.TB, o HtpasswdOptions, rules *access.Rules, lines ...string) *tested {
	t.Helper()
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Path = filepath.Join(t.TempDir(), "htpasswd")
	write(t, o.Path, lines...)
	h, err := NewHtpasswd(o)
	if err != nil {
		t.Fatal(err)
	}
	return &tested{h, NewAuthorizer(Options{Rules: func() *access.Rules { return rules }, Logins: &Logins{Htpasswd: h}, Realm: "basic-realm"}), o.Path}
}

func request(header string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v2/", nil)
	if header != "" {
		r.Header.Set("Authorization", header)
	}
	return r
}

func basic(user, password string) *http.Request {
	r := request("")
	r.SetBasicAuth(user, password)
	return r
}

func refusal(t *testing.T, err error) *Refusal {
	t.Helper()
	var refused *Refusal
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return refused
}

func TestAuthorize(t *testing.T) {
	long := strings.Repeat("p", 72)
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", long), "\n# carol:x\n", line(t, "dora", "a:b"))
	for _, c := range []struct {
		name string
		r    *http.Request
		want Reason // "" is granted
	}{
		{"right", basic("alice", "secret"), ""},
		{"scheme in another case", request(strings.Replace(basic("alice", "secret").Header.Get("Authorization"), "Basic", "bASIC", 1)), ""},
		{"colon in the password", basic("dora", "a:b"), ""},
		{"wrong password", basic("alice", "Secret"), WrongPassword},
		{"password of another user", basic("alice", long), WrongPassword},
		{"unknown user", basic("mallory", "secret"), UnknownUser},
		{"user in another case", basic("Alice", "secret"), UnknownUser},
		{"commented out", basic("# carol", "x"), UnknownUser},
		{"empty password", basic("alice", ""), WrongPassword},
		{"what bcrypt does not look at", basic("bob", long+"tail"), ""},
		{"no header", request(""), NoCredentials},
		{"empty credentials", basic("", ""), NoCredentials},
		{"bearer", request("Bearer abc"), BadHeader},
		{"no base64", request("Basic %%%"), BadHeader},
		{"no colon", request("Basic YWxpY2U="), BadHeader},
		{"too long", basic("alice", strings.Repeat("x", 4000)), BadHeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // the second time from memory
				grant, err := h.Authorize(c.r, Access{Action: Push, Repository: "a/b"})
				if c.want == "" {
					if err != nil || grant.User == "" {
						t.Fatalf("got %+v, %v", grant, err)
					}
					continue
				}
				refused := refusal(t, err)
				if refused.Reason != c.want || refused.Err.Code != oci.CodeUnauthorized {
					t.Errorf("got %v, want %v", refused, c.want)
				}
				if refused.Challenge != `Basic realm="basic-realm"` {
					t.Errorf("challenge %q", refused.Challenge)
				}
			}
		})
	}
}

func TestRememberedLoginIsCheap(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"))
	r := basic("alice", "secret")
	login := func() { _, _ = h.Authorize(r, Access{Action: Pull, Repository: "r"}) }
	login()
	if n := testing.AllocsPerRun(100, login); n > 5 { // none, but the race detector's pools forget
		t.Errorf("%v allocations", n)
	}
}
