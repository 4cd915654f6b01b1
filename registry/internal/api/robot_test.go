package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// A robot rotates itself and the robots that it made. If it rotated its maker or an older robot,
// both would lose their rights.
func TestRotateRobot_ByARobot(t *testing.T) {
	store := memory.New()
	robots := robot.New(store, zap.NewNop())
	rules := newRules(t)
	headers := map[string][]string{}
	login := func(name, secret string) {
		headers[name] = basic("robot+"+name, secret)
	}
	for _, r := range []robot.Robot{{Name: "one"}, {Name: "two"}, {Name: "child", CreatedBy: "robot:one"}} {
		if r.CreatedBy != "" {
			maker, err := robots.Read(t.Context(), "one")
			if err != nil {
				t.Fatal(err)
			}
			r.MakerID = maker.Tenure
		}
		r.Repositories, r.Allow = []string{"**"}, []string{"admin"}
		secret, err := robots.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		login(r.Name, secret)
	}
	s := newServer(t, func(s *setup) {
		s.store, s.options.Robots = store, robots
		s.options.Auth = auth.NewAuthorizer(auth.Options{Rules: func() *access.Rules { return rules }, Logins: &auth.Logins{Robots: robots}, Realm: "test"})
	})
	for _, pair := range [][2]string{{"one", "one"}, {"one", "child"}, {"child", "child"}} {
		got := s.do("POST", "/v2/_slipway/robots/"+pair[1]+"/secret", nil, headers[pair[0]]...).want(t, 200)
		var created struct{ Password string }
		if err := json.Unmarshal(got.body, &created); err != nil {
			t.Fatal(err)
		}
		login(pair[1], created.Password)
	}
	for _, pair := range [][2]string{{"one", "two"}, {"two", "one"}, {"child", "one"}} {
		s.do("POST", "/v2/_slipway/robots/"+pair[1]+"/secret", nil, headers[pair[0]]...).wantError(t, 403, oci.CodeDenied)
	}
	for name := range headers {
		s.do("GET", "/v2/", nil, headers[name]...).want(t, 200)
	}
}

func TestCreateRobot_Expires(t *testing.T) {
	store := memory.New()
	robots := robot.New(store, zap.NewNop())
	s := newServer(t, func(s *setup) { s.store, s.options.Robots = store, robots })
	create := func(expires string) answer {
		return s.do("POST", "/v2/_slipway/robots", []byte(`{"name":"ci","repositories":["**"],"allow":["pull"],"expires":`+expires+`}`))
	}
	for _, wrong := range []string{`"2160h"`, `"2999-01-01"`, `5`} {
		got := create(wrong).wantError(t, 400, oci.CodeUnsupported)
		if !strings.Contains(string(got.body), "expires: must be a time such as 2027-01-01T00:00:00Z") || strings.Contains(string(got.body), "2006") {
			t.Errorf("expires %s: %s", wrong, got.body)
		}
	}
	create(`"2999-01-01T00:00:00Z"`).want(t, 201)
	all, err := robots.List(t.Context())
	if want := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC); err != nil || len(all) != 1 || !all[0].Expires.Equal(want) {
		t.Errorf("robots: %v, %v", all, err)
	}
}

// A robot that cannot be stored: the client gets the reason, as with a push.
func TestCreateRobot_NotStored(t *testing.T) {
	store := &brokenStore{both: memory.New()}
	robots := robot.New(store, zap.NewNop())
	s := newServer(t, func(s *setup) { s.store, s.options.Robots = store, robots })
	for _, c := range []struct {
		err    error
		status int
		code   oci.Code
	}{{storage.ErrReadOnly, 503, oci.CodeUnavailable}, {storage.ErrNoSpace, 500, oci.CodeUnknown}} {
		store.err = fmt.Errorf("/some/path: %w", c.err)
		got := s.do("POST", "/v2/_slipway/robots", []byte(`{"name":"ci","repositories":["**"],"allow":["pull"]}`)).wantError(t, c.status, c.code)
		if text := string(got.body); !strings.Contains(text, c.err.Error()) || strings.Contains(text, "path") {
			t.Errorf("%v: %s", c.err, text)
		}
	}
}

// A robot that was made by a personal access token ends with it, and the audit log names the token.
func TestCreateRobot_ByAPersonalToken(t *testing.T) {
	store, lines := memory.New(), &bytes.Buffer{}
	robots := robot.New(store, zap.NewNop())
	rules := newRules(t, allow("u", "**", "admin"))
	people := personal.New(store, "")
	acts := audit.New(zap.NewNop(), audit.Unclosed{Writer: lines})
	logins := &auth.Logins{Htpasswd: openUsers(t), Robots: robots, People: people}
	authorizer := auth.NewAuthorizer(auth.Options{Rules: func() *access.Rules { return rules }, Logins: logins, Realm: "test"})
	s := newServer(t, func(s *setup) {
		s.store, s.options.Robots, s.options.Audit, s.options.Auth = store, robots, acts, authorizer
	})
	create := func(path, body string, login []string) []string {
		t.Helper()
		var created struct{ Username, Password string }
		if err := json.Unmarshal(s.do("POST", path, []byte(body), login...).body, &created); err != nil || created.Password == "" {
			t.Fatalf("%s: %v", path, err)
		}
		return basic(created.Username, created.Password)
	}
	bond, err := authorizer.Bond(t.Context(), access.Caller{Kind: access.User, Name: "u"})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := people.Create(t.Context(), "u", personal.Token{Expires: time.Now().Add(time.Hour), Bond: bond})
	if err != nil {
		t.Fatal(err)
	}
	const robotsPath = "/v2/_slipway/robots"
	login := basic("u", secret)
	robot := create(robotsPath, `{"name":"ci","repositories":["**"],"allow":["admin"]}`, login)
	child := create(robotsPath, `{"name":"child","repositories":["**"],"allow":["push"]}`, robot)
	own := create(robotsPath, `{"name":"own","repositories":["**"],"allow":["push"]}`, basic("u", "p"))
	create(robotsPath, `{"name":"rotated","repositories":["**"],"allow":["push"]}`, basic("u", "p"))
	rotated := create(robotsPath+"/rotated/secret", "", login)
	for _, login := range [][]string{robot, child, own, rotated} {
		s.do("GET", "/v2/", nil, login...).want(t, 200)
	}
	id := personal.IDOf(secret)
	if err := people.Revoke(t.Context(), "u", id); err != nil {
		t.Fatal(err)
	}
	for i, login := range [][]string{robot, child, rotated} {
		if got := s.do("GET", "/v2/", nil, login...); got.StatusCode != 401 {
			t.Errorf("robot %d after the token was revoked: %d", i, got.StatusCode)
		}
	}
	s.do("GET", "/v2/", nil, own...).want(t, 200)
	if err := acts.Close(); err != nil {
		t.Fatal(err)
	}
	if want := `"event":"robot created","who":"u","token":"` + id + `"`; strings.Count(lines.String(), want) != 1 || strings.Contains(lines.String(), secret) {
		t.Errorf("want one %s in\n%s", want, lines)
	}
}
