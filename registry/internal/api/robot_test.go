package api

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/memory"
)

// A robot rotates itself and the robots that it made. If it rotated its maker or an older robot,
// both would lose their rights.
func TestRotateRobot_ByARobot(t *testing.T) {
	store := memory.New()
	robots, err := robot.Open(t.Context(), store, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	rules, err := access.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string][]string{}
	login := func(name, secret string) {
		headers[name] = []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("robot+"+name+":"+secret))}
	}
	for _, r := range []robot.Robot{{Name: "one"}, {Name: "two"}, {Name: "child", CreatedBy: "robot:one"}} {
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
	robots, err := robot.Open(t.Context(), store, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
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
