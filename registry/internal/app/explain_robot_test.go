package app

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// `registry access explain` agrees with the server about robots, also after their makers were removed.
func TestExplain_RobotUnderItsMaker(t *testing.T) {
	t.Setenv("REGISTRY_AUTH_SERVICE", "builtin")
	text := accessText(t, "access: {rules: [{who: [alice], repositories: ['web/**'], allow: [admin]}, {who: [bob], repositories: ['**'], allow: [pull]}]}\n")
	cfg := loadText(t, strings.Replace(text, "auth: {", "auth: {service: {builtin: {}}, ", 1))
	store := memory.New()
	g, err := openAuth(t.Context(), cfg, &Backend{Store: store}, nil, nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{}
	create := func(r robot.Robot) {
		t.Helper()
		r.Repositories, r.Allow = []string{"**"}, []string{"push"}
		if secrets[r.Name], err = g.robots.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	alice := access.Caller{Kind: access.User, Name: "alice"}
	bond, err := g.authorizer.Bond(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := g.authorizer.People().Create(t.Context(), "alice", personal.Token{Expires: time.Now().Add(time.Hour), Bond: bond})
	if err != nil {
		t.Fatal(err)
	}
	token := personal.IDOf(secret)
	create(robot.Robot{Name: "free"})
	create(robot.Robot{Name: "of-alice", CreatedBy: "alice"})
	create(robot.Robot{Name: "of-bob", CreatedBy: "bob"})
	create(robot.Robot{Name: "by-token", CreatedBy: "alice", Token: token})
	create(robot.Robot{Name: "parent", CreatedBy: "alice"})
	parent, err := g.robots.Read(t.Context(), "parent")
	if err != nil {
		t.Fatal(err)
	}
	create(robot.Robot{Name: "child", CreatedBy: "robot:parent", MakerID: parent.Tenure})
	create(robot.Robot{Name: "orphan", CreatedBy: "bob"})
	create(robot.Robot{Name: "stranger", CreatedBy: "carol"})
	create(robot.Robot{Name: "of-person", CreatedBy: "oidc:anna", MakerID: "1"})
	create(robot.Robot{Name: "of-workload", CreatedBy: "workload:ci"})

	// works holds the robots that push to web/app.
	agree := func(works ...string) {
		t.Helper()
		for name, secret := range secrets {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.SetBasicAuth("robot+"+name, secret)
			_, refused := g.authorizer.Authorize(r, auth.Access{Action: auth.Push, Repository: "web/app"})
			_, answer, err := Explain(t.Context(), cfg, "robot:"+name, nil, access.Push, "web/app", func(do func(storage.Store) error) error { return do(store) })
			explained := err == nil && strings.HasPrefix(answer, "allowed")
			if want := slices.Contains(works, name); (refused == nil) != want || explained != want {
				t.Errorf("the robot %s: the server decides %v; explained: %q, %v; want %v", name, refused, answer, err, want)
			}
		}
	}
	agree("free", "of-alice", "by-token", "parent", "child")
	if err := g.authorizer.People().Revoke(t.Context(), "alice", token); err != nil {
		t.Fatal(err)
	}
	if ended, err := g.robots.Orphan(t.Context(), "orphan"); err != nil || !ended {
		t.Fatal(ended, err)
	}
	agree("free", "of-alice", "parent", "child")
	if err := g.robots.Revoke(t.Context(), "parent"); err != nil {
		t.Fatal(err)
	}
	delete(secrets, "parent")
	agree("free", "of-alice")
	path := cfg.Auth.HTPasswd.Path
	users, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(users), "\n") // without alice
	if err := os.WriteFile(path, []byte(rest), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.users.Reload(); err != nil {
		t.Fatal(err)
	}
	agree("free")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := g.users.Reload(); err == nil {
		t.Fatal("the password file is still there")
	}
	agree("free")
}
