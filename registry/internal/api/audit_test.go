package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/memory"
)

// lines is a sink that can be looked at meanwhile.
type lines struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func (l *lines) count() int { return strings.Count(l.String(), "\n") }

// deleted holds the fields of a deletion's line.
func deleted(r audit.Record) string {
	if r.Event != "delete" {
		return ""
	}
	return r.Digest
}

// Each act, login and refusal leaves one line, and nothing else does.
func TestAudit(t *testing.T) {
	out := &lines{}
	acts := audit.New(zap.NewNop(), audit.Unclosed{Writer: out})
	store := memory.New()
	robots := robot.New(store, zap.NewNop())
	s := newServer(t, withRules(t, allow("anyone", "public/**", "pull"), allow("u", "**", "admin")), func(s *setup) {
		s.store, s.options.Audit, s.options.Robots = store, acts, robots
	})
	user := []string{"Authorization", rightUser}
	s.do("GET", "/v2/", nil)                                          // learns that a login is needed
	s.do("GET", "/v2/", nil, "Authorization", wrongUser).want(t, 401) // refused
	s.do("GET", "/v2/", nil, user...).want(t, 200)                    // login
	s.do("GET", "/v2/", nil, user...).want(t, 200)
	push := func(tag, content string) oci.Digest {
		config := []byte(`{"os":"linux","name":"` + content + `"}`)
		d := digestOf(config)
		start := s.do("POST", "/v2/public/a/blobs/uploads/", nil, user...).want(t, 202)
		s.do("PUT", with(start.location(t), "digest", string(d)), config, user...).want(t, 201)
		m := `{"schemaVersion":2,"mediaType":"` + oci.MediaTypeManifest + `","config":` + describe("application/vnd.oci.image.config.v1+json", d, len(config)) + `,"layers":[]}`
		s.do("PUT", "/v2/public/a/manifests/"+tag, []byte(m), append(user, "Content-Type", oci.MediaTypeManifest)...).want(t, 201)
		return digestOf([]byte(m))
	}
	first := push("v1", "one")
	second := push("v1", "two")
	s.do("GET", "/v2/public/a/manifests/v1", nil).want(t, 200)
	s.do("GET", "/v2/public/a/manifests/gone", nil).want(t, 404)
	s.do("PUT", "/v2/INVALID/manifests/v1", []byte("{}")).want(t, 400) // by anybody
	s.do("DELETE", "/v2/INVALID/manifests/v1", nil).want(t, 400)
	s.do("HEAD", "/v2/public/a/manifests/v1", nil).want(t, 200)
	s.do("PUT", "/v2/public/a/manifests/v2", []byte("{"), append(user, "Content-Type", oci.MediaTypeManifest)...).want(t, 400)
	s.do("DELETE", "/v2/public/a/manifests/v1", nil, user...).want(t, 202)
	s.do("POST", "/v2/_slipway/robots", []byte(`{"name":"ci"}`), user...).want(t, 201)
	s.do("DELETE", "/v2/_slipway/robots/ci", nil, user...).want(t, 204)
	s.do("DELETE", "/v2/_slipway/robots/ci", nil, user...).want(t, 404)
	const acted = 12
	for out.count() < acted { // a line may be written after the answer
		time.Sleep(time.Millisecond)
	}
	if err := acts.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		var r audit.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if r.Time.IsZero() || !strings.HasPrefix(r.From, "127.0.0.1:") || r.RequestID == "" {
			t.Errorf("%s", line)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintln(r.Event, r.Who, r.Repository, r.Status, r.Reason, r.Claimed, r.Change, r.Moved["v1"], deleted(r))))
	}
	want := []string{
		"refused anonymous  401 wrong password u",
		"login u  200",
		"push u public/a 201", "push u public/a 201",
		"push u public/a 201", "push u public/a 201    " + string(first),
		"pull anonymous public/a 200",
		"push u public/a 400",
		"delete u public/a 202     " + string(second),
		"robot created u  201   only the rights of access rules", "robot deleted u  204", "robot deleted u  404",
	}
	slices.Sort(got) // that of a request may come after that of the next one
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	if !strings.Contains(out.String(), string(second)) || strings.Contains(out.String(), "slipway_robot_") {
		t.Errorf("%s", out.String())
	}
}

// Where nobody can log in, a request that the rules do not allow is refused and not sent
// to a login.
func TestAudit_RefusalWithoutLogins(t *testing.T) {
	out := &lines{}
	acts := audit.New(zap.NewNop(), audit.Unclosed{Writer: out})
	rules, err := access.New(nil, []access.Rule{allow("anyone", "public/**", "pull")})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, func(s *setup) {
		s.options.Auth = auth.NewAuthorizer(auth.Options{Rules: func() *access.Rules { return rules }})
		s.options.Audit = acts
	})
	s.do("GET", "/v2/secret/manifests/v1", nil).want(t, 403)
	for out.count() < 1 { // a line may be written after the answer
		time.Sleep(time.Millisecond)
	}
	if err := acts.Close(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, `"event":"refused","who":"anonymous"`) || !strings.Contains(got, `"repository":"secret"`) {
		t.Errorf("got %s", got)
	}
}
