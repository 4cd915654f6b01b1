package web

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/identity/robot"
)

// withRobots adds robots to a site.
func withRobots(t *testing.T) func(*setup) {
	return func(c *setup) {
		robots := robot.New(c.store, zap.NewNop())
		c.api.Robots, c.pages.Robots, c.auth.Logins.Robots = robots, robots, robots
	}
}

func TestAccess(t *testing.T) {
	s := newSite(t, withRobots(t))
	b := s.browser()
	b.get("/ui/access?repository=web/app")
	b.want(200, ">anonymous</a>", "->alice</a>", "Denied: no rule allows it.")
	b = s.as("bob")
	b.get("/ui/access?repository=web/app&who=alice")
	b.want(200, "Why bob may or may not", "->alice</a>", "You see your own rights.", "Allowed by rules[3]: bob in web/**: allow pull, list.")
	for _, who := range []string{"lead", "owner"} {
		b = s.as(who)
		b.get("/ui/access?repository=web/app&who=alice")
		b.want(200, ">anonymous</a>", ">alice</a>", ">bob</a>", "Why alice may or may not", "Allowed by rules[1]: alice in web/**")
	}
	b.want(200, "-cannot log in")
	s.setPasswords("owner", "bob", "nobody", "lead") // without alice, whom a rule names
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(b.page, "cannot log in"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the page doesn't mark alice, who cannot log in")
		}
		b = s.as("owner") // the file ends earlier sessions
		b.get("/ui/access?repository=web/app")
	}
	b = s.as("lead")
	b.get("/ui/access?repository=public/base")
	b.want(200, "->alice</a>", "You see your own rights.")
	b.get("/ui/access?repository=%3Cscript%3E")
	b.want(400, "not the name of a repository", "-<script>")
}

// TestAccess_OfGroups: nobody can list the people of the provider, so groups stand for them.
func TestAccess_OfGroups(t *testing.T) {
	rules, err := access.New(nil, []access.Rule{
		{Who: []string{"owner"}, Repositories: []string{"**"}, Allow: []string{"admin"}},
		{Who: []string{"oidc-group:developers"}, Repositories: []string{"web/**"}, Allow: []string{"push"}},
		{Who: []string{"users"}, Repositories: []string{"web/**"}, Allow: []string{"pull"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, withPeople, func(c *setup) { c.auth.Rules = func() *access.Rules { return rules } })
	b := s.as("owner")
	b.get("/ui/access?repository=web/app&who=oidc-group:developers")
	b.want(200, ">anybody at the identity provider</a>", "Why oidc-group:developers may or may not", "Allowed by rules[1]: oidc-group:developers in web/**: allow push.")
	b.get("/ui/access?repository=web/app&who=anybody+at+the+identity+provider")
	b.want(200, "Allowed by rules[2]: users in web/**: allow pull.")
}

// TestAccess_OfMany: a list that isn't whole says so.
func TestAccess_OfMany(t *testing.T) {
	many := access.Rule{Who: []string{"owner"}, Repositories: []string{"**"}, Allow: []string{"admin"}}
	for i := range 600 {
		many.Who = append(many.Who, fmt.Sprint("user", i))
	}
	rules, err := access.New(nil, []access.Rule{many})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(c *setup) { c.auth.Rules = func() *access.Rules { return rules } })
	b := s.as("owner")
	b.get("/ui/access?repository=web/app")
	b.want(200, "There are more callers than this page lists", ">owner</a>")
}

// TestAccess_NamesNobodyElse: a rule may be for others, and for repositories that a visitor can't see, too.
func TestAccess_NamesNobodyElse(t *testing.T) {
	rules, err := access.New(map[string][]string{"ops": {"bob", "carol"}}, []access.Rule{
		{Who: []string{"group:ops", "dave"}, Repositories: []string{"web/**", "secret/plan"}, Allow: []string{"pull"}},
		{Who: []string{"lead", "erin"}, Repositories: []string{"web/**"}, Allow: []string{"admin"}},
		{Who: []string{"anyone"}, Repositories: []string{"web/app", "secret/merger"}, Deny: []string{"pull"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(c *setup) { c.auth.Rules = func() *access.Rules { return rules } })
	b := s.browser()
	b.get("/ui/access?repository=web/app")
	b.want(200, "Denied by rules[2]: anyone in web/app: deny pull.", "-secret/")
	for user, why := range map[string]string{"bob": "Allowed by rules[0]: group:ops in web/**: allow pull.", "lead": "Allowed by rules[1]: lead in web/**: allow admin."} {
		b = s.as(user)
		b.get("/ui/access?repository=web/app")
		b.want(200, why, "-secret/", "-dave, ", "-, erin")
		if user == "lead" { // erin has no password
			b.want(200, `erin</a> <span class="state odd"`, `lead</a></th>`, `anonymous</a></th>`)
		}
	}
}

var secretShown = regexp.MustCompile(`id="robot-secret">([^<]*)<`)

// TestRobots: an administrator of some repositories manages the robots of those, and no others.
func TestRobots(t *testing.T) {
	s := newSite(t, withRobots(t))
	s.image("web/app", "v1", nil, "x")
	for _, who := range []string{"", "bob", "alice"} {
		b := s.browser()
		if who != "" {
			b = s.as(who)
		}
		b.get("/ui/")
		b.want(200, "-/ui/robots")
		b.get("/ui/robots")
		b.want(404)
	}
	owner := s.as("owner")
	owner.get("/ui/repository/web/app")
	owner.want(200, `href="/ui/access?repository=web%2fapp"`)
	owner.get("/ui/robots")
	owner.post("/ui/robots", "name", "all", "repositories", "**", "allow", "pull")
	owner.want(200, "Copy the secret now", "robot&#43;all")
	lead := s.as("lead")
	lead.get("/ui/robots")
	lead.want(200, "->all<", "New robot")
	page := lead.page
	for _, patterns := range []string{"**", "", "public/**", "web/** public/base"} {
		lead.page = page
		lead.post("/ui/robots", "name", "ci", "repositories", patterns, "allow", "push")
		if lead.status != http.StatusForbidden && lead.status != http.StatusBadRequest || strings.Contains(lead.page, "robot-secret") {
			t.Errorf("lead makes a robot for %q: %d\n%s", patterns, lead.status, lead.page)
		}
	}
	lead.page = page
	lead.post("/ui/robots", "name", "<b>", "repositories", "web/**", "allow", "push", "note", "<b>evil</b>")
	lead.want(400, "not a valid name", "-<b>evil")
	lead.post("/ui/robots", "name", "ci", "repositories", "web/**", "allow", "push", "days", "30", "note", "the <pipeline>")
	lead.want(200, "robot&#43;ci", "web/**", "by lead", "the &lt;pipeline&gt;", "not since the start")
	first := secretShown.FindStringSubmatch(lead.page)[1]
	status := func(secret string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v2/web/app/tags/list", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("robot+ci", secret)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := status(first); got != 200 {
		t.Errorf("the robot's first secret: %d", got)
	}
	lead.get("/ui/robots")
	lead.want(200, "-"+first, "-not since the start")
	lead.post("/ui/robots/ci/secret")
	lead.want(200, "Give another secret to the robot ci?", "-robot-secret", `name="sure" value="yes"`, `href="/ui/robots" autofocus>Cancel`)
	if got := status(first); got != 200 {
		t.Errorf("before the answer: %d", got)
	}
	lead.post("/ui/robots/none/revoke")
	lead.want(404)
	lead.page = page
	lead.post("/ui/robots/ci/secret", "sure", "yes")
	second := secretShown.FindStringSubmatch(lead.page)[1]
	if got := []int{status(first), status(second)}; got[0] != 401 || got[1] != 200 {
		t.Errorf("after another secret: %v", got)
	}
	for _, path := range []string{"/ui/robots/all/secret", "/ui/robots/all/revoke"} {
		lead.page = page
		lead.post(path)
		lead.want(404, "-all?")
		lead.page = page
		lead.post(path, "sure", "yes")
		lead.want(403, "do not administer")
	}
	lead.page = page
	lead.post("/ui/robots/ci/revoke")
	lead.want(200, "Delete the robot ci?")
	lead.post("/ui/robots/ci/revoke", "sure", "yes")
	lead.want(200, "Deleted.", "->ci<")
	if got := status(second); got != 401 {
		t.Errorf("a revoked robot: %d", got)
	}
	lead.page = page
	lead.post("/ui/robots/ci/secret", "sure", "yes")
	lead.want(404, "not here")
}

// withPeople adds personal access tokens to a site.
func withPeople(c *setup) { c.auth.Logins.People = personal.New(c.store, "provider") }

var tokenShown = regexp.MustCompile(`id="token-secret">([^<]*)<`)

func TestPersonalTokens(t *testing.T) {
	s := newSite(t, withPeople)
	s.image("web/app", "v1", nil, "x")
	b := s.browser()
	b.get("/ui/account")
	b.want(404, "Log in")
	b = s.as("alice")
	b.get("/ui/account")
	b.want(200, "New token", "-Revoke")
	page := b.page
	for _, days := range []string{"0", "-1", "4000", "x"} {
		b.page = page
		b.post("/ui/account/tokens", "days", days, "scope", "pull", "note", "<i>")
		b.want(400, "It expires after a day to a year.", "-<i>")
	}
	b.page = page
	b.post("/ui/account/tokens", "days", "30", "scope", "pull", "note", "laptop <1>")
	b.want(200, "laptop &lt;1&gt;", "pull, list", "docker login -u alice")
	secret := tokenShown.FindStringSubmatch(b.page)[1]
	b.get("/ui/account")
	b.want(200, "-"+secret)
	client := func(method, path string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("alice", secret)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/v2/", 200},
		{"GET", "/v2/web/app/tags/list", 200},
		{"GET", "/v2/secret/plans/tags/list", 403},
		{"POST", "/v2/web/app/blobs/uploads/", 403},
		{"DELETE", "/v2/web/app/manifests/v1", 403},
	} {
		if got := client(tt.method, tt.path); got != tt.want {
			t.Errorf("%s %s with a token for pulls: %d, want %d", tt.method, tt.path, got, tt.want)
		}
	}
	// The pages take no token for a password.
	other := s.browser()
	other.post("/ui/login", "name", "alice", "password", secret)
	other.want(401)
	// Somebody else can't revoke it.
	bob := s.as("bob")
	bob.get("/ui/account")
	id := strings.Split(secret, "_")[2]
	bob.post("/ui/account/tokens/"+id+"/revoke", "sure", "yes")
	bob.want(404)
	b.get("/ui/account")
	b.post("/ui/account/tokens/" + id + "/revoke")
	b.want(200, "Revoke the token "+id+"?")
	if got := client("GET", "/v2/"); got != 200 {
		t.Errorf("before the answer: %d", got)
	}
	b.post("/ui/account/tokens/"+id+"/revoke", "sure", "yes")
	b.want(200, "Revoked.", "-laptop &lt;")
	if got := client("GET", "/v2/"); got != 401 {
		t.Errorf("a revoked token: %d", got)
	}
	// A token ends with its owner.
	b.post("/ui/account/tokens", "days", "30", "scope", "all")
	secret = tokenShown.FindStringSubmatch(b.page)[1]
	if got := client("DELETE", "/v2/web/app/manifests/v1"); got != 202 {
		t.Errorf("a token for everything deletes: %d", got)
	}
	s.setPasswords("bob")
	for deadline := time.Now().Add(20 * time.Second); client("GET", "/v2/") != 401; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a token outlives its owner")
		}
	}
}
