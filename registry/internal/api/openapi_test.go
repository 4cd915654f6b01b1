package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/keyring"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pageindex"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
	"slipway/registry/openapi"
	"slipway/shared/health"
	"slipway/shared/openapitest"
)

func TestDocument_SuitsGenerators(t *testing.T) {
	openapitest.Read(t, openapi.Document).CheckGenerators(t)
}

// documentedServer has all routes. The user u may do everything.
func documentedServer(t *testing.T, change ...func(*setup)) *host {
	t.Helper()
	written := newRules(t, allow("u", "**", "admin"))
	rules := func() *access.Rules { return written }
	return newServer(t, append(change, func(s *setup) {
		store := memory.New()
		keys, err := keyring.Open(t.Context(), store, time.Hour, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		robots := robot.New(store, zap.NewNop())
		users := openUsers(t)
		logins := &auth.Logins{Htpasswd: users, Robots: robots, People: personal.New(store, "")}
		s.options.Users = &auth.Accounts{Users: users, Robots: robots, Rules: rules, Cost: bcrypt.MinCost}
		monitor := health.Start(zap.NewNop())
		t.Cleanup(monitor.Close)
		s.store, s.rules.KeepDeleted, s.options.Robots, s.options.Health = store, time.Hour, robots, monitor
		s.options.Rights = auth.NewAuthorizer(auth.Options{Rules: rules, Logins: logins, Realm: "test"})
		s.options.Auth = s.options.Rights
		s.options.Board = &schedule.Board{}
		s.options.Board.Plan(schedule.GarbageCollect, time.Hour)
		s.options.Board.Plan(schedule.RetentionApply, 0)
		s.options.Board.Begin(schedule.Verify, "u").Enter("reading blobs")
		s.options.Board.Begin(schedule.UploadPurge, "")
		s.options.Board.End(schedule.UploadPurge, false)
		s.options.Plan = func(ctx context.Context) (*retention.Plan, error) {
			rules := []retention.Rule{{Repositories: pattern.MustNames([]string{"**"}), Tags: pattern.MustTags([]string{".*"}), Delete: true}}
			return retention.Make(ctx, retention.Options{Store: store, Registry: registry.New(registry.Options{Store: store}), Rules: rules, Pulls: lastpull.NewFile(store)})
		}
		s.options.Index = openIndex(t, store)
		s.options.Tokens = auth.NewService(auth.ServiceOptions{Rules: rules, Logins: logins, Keys: keys, Service: "registry", Lifetime: time.Hour, RefreshLifetime: time.Hour})
	})...)
}

// openIndex makes an index of the store that is current.
func openIndex(t *testing.T, store storage.Store) *pageindex.Index {
	t.Helper()
	x := pageindex.New(pageindex.Options{Store: store, Interval: time.Hour, Log: zap.NewNop()})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { x.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	waitFor(t, x.Want)
	return x
}

// inSpecification are routes that the OCI distribution specification describes, and the document doesn't.
var inSpecification = []string{"GET /", "GET /v2/", "GET /v2", "GET /v2/{name}/manifests/{reference}", "PUT /v2/{name}/manifests/{reference}"}

// documentedRoutes returns the routes that the document has to describe.
func (a *API) documentedRoutes() (routes []string) {
	pattern := regexp.MustCompile(`\{(\w+):[^}]*\}`)
	add := func(prefix string, all []*endpoint) {
		for _, e := range all {
			if e.name == routeBlob || e.name == routeUploads || e.name == "blob_upload_chunk" || e.name == routeNone {
				continue
			}
			for _, row := range e.rows {
				route := row.method + " " + prefix + pattern.ReplaceAllString(e.path, "{$1}")
				if row.method != head && !slices.Contains(inSpecification, route) {
					routes = append(routes, route)
				}
			}
		}
	}
	add("/v2", a.v2())
	add("", a.outside())
	return routes
}

func TestEveryRouteIsDocumented(t *testing.T) {
	openapitest.Read(t, openapi.Document).CheckRoutes(t, documentedServer(t).api.documentedRoutes())
}

func TestDocument_HasAllFields(t *testing.T) {
	d := openapitest.Read(t, openapi.Document)
	for name, answer := range map[string]any{
		"Deletion": registry.Deletion{}, "Target": registry.Target{}, "Restored": registry.Restored{}, "DeletedRepository": deletedRepository{}, "Selection": registry.Selection{}, "Robot": robot.Robot{}, "RobotInput": robotRequest{}, "Token": tokenAnswer{},
		"PersonalToken": personalToken{}, "TokenInput": tokenRequest{}, "IssuedToken": createdToken{}, "Access": rights{}, "Usage": usage{}, "RetentionPlan": planAnswer{}, "Job": job{}, "JobInput": jobRequest{}, "Login": login{}, "User": auth.Account{}, "UserInput": userRequest{}, "UserChange": userChange{}, "PasswordChange": passwordChange{},
	} {
		d.CheckFields(t, d.Components.Schemas[name], reflect.TypeOf(answer), name)
	}
	var codes []string
	for _, code := range d.Components.Schemas["Error"].Properties["code"].Enum {
		codes = append(codes, fmt.Sprint(code))
	}
	var want []string
	for code := range maps.Keys(statuses) {
		want = append(want, string(code))
	}
	slices.Sort(codes)
	if slices.Sort(want); !slices.Equal(codes, want) {
		t.Errorf("codes are %v, want %v", codes, want)
	}
}

// TestAnswersAreAsDocumented asks for each route, rightly and wrongly. Words in braces stand for values of
// earlier answers.
func TestAnswersAreAsDocumented(t *testing.T) {
	s := documentedServer(t)
	d := openapitest.Read(t, openapi.Document)
	for _, tag := range []string{"v1", "v2"} {
		s.do("PUT", "/v2/a/b/manifests/"+tag, []byte(`{"schemaVersion":2,"manifests":[]}`), "Authorization", rightUser, "Content-Type", oci.MediaTypeIndex).want(t, 201)
	}
	digest := string(digestOf([]byte(`{"schemaVersion":2,"manifests":[]}`)))
	asked, token := map[string]bool{}, ""
	for _, tt := range []struct {
		method, path, last, query, body, auth string
		status                                int
	}{
		{"GET", "/v2/_catalog", "", "?n=1", "", rightUser, 200},
		{"GET", "/v2/_catalog", "", "?n=x", "", rightUser, 400},
		{"GET", "/v2/_catalog", "", "", "", "", 401},
		{"GET", "/v2/{name}/tags/list", "", "?n=1", "", rightUser, 200},
		{"GET", "/v2/{name}/tags/list", "", "", "", wrongUser, 401},
		{"GET", "/v2/{name}/referrers/{digest}", digest, "", "", rightUser, 200},
		{"GET", "/v2/{name}/referrers/{digest}", "x", "", "", rightUser, 400},
		{"GET", "/v2/{name}/_slipway/tags/{tag}/history", "v1", "", "", rightUser, 200},
		{"GET", "/v2/{name}/_slipway/tags/{tag}/history", ".x", "", "", rightUser, 404},
		{"GET", "/v2/_slipway/usage", "", "", "", rightUser, 200},
		{"GET", "/v2/_slipway/usage", "", "?n=x", "", rightUser, 400},
		{"GET", "/v2/_slipway/usage", "", "", "", "", 401},
		{"GET", "/v2/_slipway/retention", "", "", "", rightUser, 200},
		{"GET", "/v2/_slipway/retention", "", "", "", wrongUser, 401},
		{"GET", "/v2/_slipway/jobs", "", "", "", rightUser, 200},
		{"GET", "/v2/_slipway/jobs", "", "", "", "", 401},
		{"POST", "/v2/_slipway/jobs/{job}", "garbage-collect", "", "", rightUser, 202},
		{"POST", "/v2/_slipway/jobs/{job}", "garbage-collect", "", "", rightUser, 409},
		{"POST", "/v2/_slipway/jobs/{job}", "retention%20apply", "", "", rightUser, 400},
		{"POST", "/v2/_slipway/jobs/{job}", "retention%20apply", "", `{"plan":"x"}`, rightUser, 202},
		{"POST", "/v2/_slipway/jobs/{job}", "none", "", "", rightUser, 404},
		{"DELETE", "/v2/{name}/manifests/{reference}", "v1", "", "", rightUser, 202},
		{"DELETE", "/v2/{name}/manifests/{reference}", "v1", "", "", rightUser, 404},
		{"GET", "/v2/{name}/_slipway/deleted", "", "", "", rightUser, 200},
		{"GET", "/v2/_slipway/deleted", "", "", "", rightUser, 200},
		{"GET", "/v2/_slipway/deleted", "", "", "", "", 401},
		{"POST", "/v2/{name}/_slipway/restore", "", "", `{"tag":"v1"}`, rightUser, 200},
		{"POST", "/v2/{name}/_slipway/restore", "", "", `{"tag":"v1"}`, rightUser, 404},
		{"POST", "/v2/{name}/_slipway/restore", "", "", `{`, rightUser, 400},
		{"DELETE", "/v2/{name}/_slipway/repository", "", "", "", rightUser, 202},
		{"GET", "/v2/_slipway/robots", "", "", "", rightUser, 200},
		{"POST", "/v2/_slipway/robots", "", "", `{"name":"ci","repositories":["**"],"allow":["pull"],"expires":"2999-01-01T00:00:00Z"}`, rightUser, 201},
		{"POST", "/v2/_slipway/robots", "", "", `{"name":"ci","repositories":["**"],"allow":["pull"]}`, rightUser, 409},
		{"POST", "/v2/_slipway/robots", "", "", `{"name":"bare"}`, rightUser, 201},
		{"POST", "/v2/_slipway/robots", "", "", `{"name":""}`, rightUser, 400},
		{"GET", "/v2/_slipway/robots", "", "", "", rightUser, 200},
		{"POST", "/v2/_slipway/robots/{robot}/secret", "ci", "", "", rightUser, 200},
		{"POST", "/v2/_slipway/robots/{robot}/secret", "none", "", "", rightUser, 404},
		{"DELETE", "/v2/_slipway/robots/{robot}", "ci", "", "", rightUser, 204},
		{"DELETE", "/v2/_slipway/robots/{robot}", "ci", "", "", wrongUser, 401},
		{"GET", "/auth/token", "", "?scope=registry:slipway:*&offline_token=true", "", rightUser, 200},
		{"GET", "/auth/token", "", "", "", wrongUser, 401},
		{"POST", "/auth/token", "", "", "grant_type=password&username=u&password=p", "", 200},
		{"POST", "/auth/token", "", "", "grant_type=x", "", 400},
		{"GET", "/debug/health", "", "", "", "", 200},
		{"POST", "/v2/_slipway/tokens", "", "", `{"allow":["pull"],"expires":"EXPIRES"}`, rightUser, 201},
		{"POST", "/v2/_slipway/tokens", "", "", `{"expires":"2020-01-01T00:00:00Z"}`, rightUser, 400},
		{"POST", "/v2/_slipway/tokens", "", "", `{"expires":"EXPIRES"}`, "", 401},
		{"GET", "/v2/_slipway/tokens", "", "", "", rightUser, 200},
		{"GET", "/v2/_slipway/tokens", "", "?all=true", "", rightUser, 200},
		{"DELETE", "/v2/_slipway/tokens/{token}", "0", "?owner=alice", "", rightUser, 404},
		{"DELETE", "/v2/_slipway/tokens/{token}", "TOKEN", "", "", rightUser, 204},
		{"GET", "/v2/_slipway/access", "", "?repository=a/b", "", rightUser, 200},
		{"GET", "/v2/_slipway/access", "", "?repository=A", "", rightUser, 400},
		{"GET", "/v2/_slipway/users", "", "", "", rightUser, 200},
		{"GET", "/v2/_slipway/users", "", "", "", "", 401},
		{"POST", "/v2/_slipway/users", "", "", `{"name":"alice"}`, rightUser, 201},
		{"POST", "/v2/_slipway/users", "", "", `{"name":"bob","password":"long enough"}`, rightUser, 201},
		{"POST", "/v2/_slipway/users", "", "", `{"name":"bob"}`, rightUser, 409},
		{"POST", "/v2/_slipway/users", "", "", `{"name":"carl","password":"short"}`, rightUser, 400},
		{"PATCH", "/v2/_slipway/users/{user}", "bob", "", `{"disabled":true}`, rightUser, 204},
		{"PATCH", "/v2/_slipway/users/{user}", "bob", "", `{}`, rightUser, 400},
		{"PATCH", "/v2/_slipway/users/{user}", "none", "", `{"disabled":true}`, rightUser, 404},
		{"DELETE", "/v2/_slipway/users/{user}", "alice", "", "", rightUser, 204},
		{"DELETE", "/v2/_slipway/users/{user}", "u", "", "", rightUser, 409},
		{"POST", "/v2/_slipway/users/{user}/password", "bob", "", "", rightUser, 200},
		{"POST", "/v2/_slipway/users/{user}/password", "none", "", "", rightUser, 404},
		{"PUT", "/v2/_slipway/account/password", "", "", `{"present":"wrong","new":"long enough"}`, rightUser, 403},
		{"PUT", "/v2/_slipway/account/password", "", "", `{"present":"p","new":"short"}`, rightUser, 400},
		{"PUT", "/v2/_slipway/account/password", "", "", `{"present":"p","new":"long enough"}`, rightUser, 204},
		{"GET", "/v2/_slipway/users", "", "", "", rightUser, 401},
		{"POST", "/v2/_slipway/users/{user}/password", "none", "", "", rightUser, 401},
		{"GET", "/openapi.yml", "", "", "", "", 200},
	} {
		what := fmt.Sprintf("%s %s%s %s (%d)", tt.method, tt.path, tt.query, tt.body, tt.status)
		tt.body = strings.Replace(tt.body, "EXPIRES", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), 1)
		tt.last = strings.Replace(tt.last, "TOKEN", token, 1)
		path := strings.Replace(tt.path, "{name}", "a/b", 1)
		if at := strings.Index(path, "{"); at >= 0 {
			path = path[:at] + tt.last + path[strings.Index(path, "}")+1:]
		}
		headers := []string{"Content-Type", "application/json"}
		if strings.HasPrefix(tt.body, "grant_type") {
			headers[1] = "application/x-www-form-urlencoded"
		}
		if tt.auth != "" {
			headers = append(headers, "Authorization", tt.auth)
		}
		got := s.do(tt.method, path+tt.query, []byte(tt.body), headers...).want(t, tt.status)
		var created createdToken
		if json.Unmarshal(got.body, &created) == nil && created.ID != "" {
			token = created.ID
		}
		if tt.status < 300 {
			asked[tt.method+" "+tt.path] = true
		}
		d.CheckAnswer(t, what, d.Operation(t, tt.method, tt.path), got.StatusCode, got.Header, got.body)
	}
	for _, route := range s.api.documentedRoutes() {
		if !asked[route] {
			t.Errorf("%s was not asked for with success", route)
		}
	}
}
