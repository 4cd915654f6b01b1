package api

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"slipway/registry/internal/access"
	"slipway/registry/internal/api/metrics"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
)

// openUsers opens a password file with the user u and more ones, all with the password p.
func openUsers(t *testing.T, more ...string) *auth.Htpasswd {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("p"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	path, content := filepath.Join(t.TempDir(), "htpasswd"), ""
	for _, name := range append(more, "u") {
		content += name + ":" + string(hash) + "\n"
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	users, err := auth.NewHtpasswd(auth.HtpasswdOptions{Path: path, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	return users
}

// basic returns the header of a login, for host.do.
func basic(user, password string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
}

// withUser lets in that user, who may do everything.
func withUser(t *testing.T, anonymousPull bool) func(*setup) {
	t.Helper()
	rules := access.UsersOnly(anonymousPull)
	return withAuth(t, func() *access.Rules { return rules })
}

const (
	rightUser = "Basic dTpw"
	wrongUser = "Basic dTpx"
)

// Each row asks for credentials; the paths that mean nothing do not.
func TestEveryRowAsksWhoItIs(t *testing.T) {
	s := newServer(t, withUser(t, false))
	challenge := []string{"Www-Authenticate", `Basic realm="basic-realm"`}
	repositoryRows(func(row *row, path string) {
		for _, credentials := range []string{"", wrongUser, "Bearer x", "nonsense"} {
			got := s.do(row.method, path, nil, "Authorization", credentials).wantError(t, 401, oci.CodeUnauthorized, challenge...)
			message := "authentication required"
			if credentials == wrongUser {
				message = "wrong name or password, or it was revoked or has expired"
			}
			if row.method != http.MethodHead && !strings.Contains(string(got.body), message) {
				t.Errorf("%s %s: %s", row.method, path, got.body)
			}
		}
		if got := s.do(row.method, path, nil, "Authorization", rightUser); got.StatusCode == http.StatusUnauthorized {
			t.Errorf("%s %s is refused to a user", row.method, path)
		}
	})
	for _, path := range []string{"/v2/", "/v2/_catalog"} {
		s.do("GET", path, nil).wantError(t, 401, oci.CodeUnauthorized, challenge...)
		s.do("GET", path, nil, "Authorization", rightUser).want(t, 200)
	}
	s.do("GET", "/", nil).want(t, 200)
	s.do("GET", "/v2", nil).want(t, 301)
	s.do("GET", "/nowhere", nil).wantError(t, 404, oci.CodeNameUnknown)
	s.do("OPTIONS", "/v2/a/manifests/x", nil).want(t, 200)
	s.do("TRACE", "/v2/", nil).wantError(t, 405, oci.CodeUnsupported)
}

func TestAnonymousPull(t *testing.T) {
	s := newServer(t, withUser(t, true))
	s.do("GET", "/v2/a/manifests/x", nil).wantError(t, 404, oci.CodeNameUnknown)
	s.do("GET", "/v2/", nil).wantError(t, 401, oci.CodeUnauthorized)
	s.do("GET", "/v2/_catalog", nil).wantError(t, 401, oci.CodeUnauthorized)
	s.do("POST", "/v2/a/blobs/uploads/", nil).wantError(t, 401, oci.CodeUnauthorized)
	s.do("GET", "/v2/a/blobs/uploads/id", nil).wantError(t, 401, oci.CodeUnauthorized)
	s.do("DELETE", "/v2/a/manifests/x", nil).wantError(t, 401, oci.CodeUnauthorized)
	s.do("GET", "/v2/a/manifests/x", nil, basic("", "")...).wantError(t, 404, oci.CodeNameUnknown) // as skopeo asks
	s.do("GET", "/v2/a/manifests/x", nil, "Authorization", wrongUser).wantError(t, 401, oci.CodeUnauthorized)
	s.do("POST", "/v2/a/blobs/uploads/", nil, "Authorization", rightUser).want(t, 202)
}

// A user is told 401 before whether something could be deleted or written.
func TestRefusalComesBeforeUnsupported(t *testing.T) {
	s := newServer(t, withUser(t, false), func(s *setup) {
		s.options.DeleteEnabled, s.options.ReadOnly = false, true
	})
	s.do("DELETE", "/v2/a/manifests/x", nil).wantError(t, 401, oci.CodeUnauthorized)
	s.do("DELETE", "/v2/a/manifests/x", nil, "Authorization", rightUser).wantError(t, 405, oci.CodeUnsupported)
	s.do("POST", "/v2/a/blobs/uploads/", nil).wantError(t, 401, oci.CodeUnauthorized)
	s.do("POST", "/v2/a/blobs/uploads/", nil, "Authorization", rightUser).wantError(t, 405, oci.CodeUnsupported)
}

// Wrong credentials are counted by reason. A request without any isn't a failed login, nor is one that isn't allowed.
func TestFailedLoginsAreCounted(t *testing.T) {
	registerer := prometheus.NewRegistry()
	s := newServer(t, withUser(t, true), func(s *setup) { s.options.Metrics = metrics.New(registerer) })
	for _, credentials := range []string{"", wrongUser, wrongUser, rightUser, "Basic bm9ib2R5OnA=", "nonsense"} {
		s.do("GET", "/v2/", nil, "Authorization", credentials)
	}
	want := "# HELP registry_failed_logins_total Logins with a wrong or revoked credential, of clients and on the pages.\n# TYPE registry_failed_logins_total counter\n"
	for _, reason := range auth.FailedLogins() {
		n := map[auth.Reason]int{auth.WrongPassword: 2, auth.UnknownUser: 1}[reason]
		want += fmt.Sprintf("registry_failed_logins_total{reason=%q} %d\n", string(reason), n)
	}
	if err := testutil.GatherAndCompare(registerer, strings.NewReader(want), "registry_failed_logins_total"); err != nil {
		t.Error(err)
	}
}

func TestAuthenticationAttemptsAreLogged(t *testing.T) {
	s := newServer(t, withUser(t, false))
	s.do("GET", "/v2/", nil)
	s.do("GET", "/v2/", nil, "Authorization", wrongUser)
	s.do("GET", "/v2/", nil, "Authorization", rightUser)
	s.do("GET", "/v2/", nil, "Authorization", rightUser)
	s.do("PUT", "/v2/a/blobs/uploads/x?digest="+string(digestOf(nil)), nil, "Authorization", rightUser)
	for message, want := range map[string]int{"authentication required": 1, "authentication failed": 1, "authorized request": 1, "response completed with error": 1} {
		lines := s.logged(message)
		if len(lines) != want {
			t.Errorf("%d lines %q, want %d", len(lines), message, want)
			continue
		}
		var name, claimed any = "u", nil
		switch message {
		case "authentication required":
			name = nil
		case "authentication failed": // nobody has proven the name
			name, claimed = nil, "u"
		}
		if lines[0]["auth.user.name"] != name || lines[0]["auth.user.claimed"] != claimed {
			t.Errorf("%s: user %v, claimed %v", message, lines[0]["auth.user.name"], lines[0]["auth.user.claimed"])
		}
	}
}
