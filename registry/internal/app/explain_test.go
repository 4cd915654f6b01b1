package app

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/memory"
)

// accessText returns a configuration with these rules and the users alice and bob, whose
// passwords are their names.
func accessText(t *testing.T, rules string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "htpasswd")
	var users strings.Builder
	for _, user := range []string{"alice", "bob"} {
		hash, err := bcrypt.GenerateFromPassword([]byte(user), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&users, "%s:%s\n", user, hash)
	}
	if err := os.WriteFile(path, []byte(users.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return "storage: {inmemory: {}, delete: {enabled: true}}\nauth: {htpasswd: {realm: r, path: " + path + "}}\n" + rules
}

// loadText loads a configuration without its version.
func loadText(t *testing.T, text string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(path, []byte("version: 0.1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(path, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

func randomRules(random *rand.Rand) string {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	var b strings.Builder
	b.WriteString("access:\n  groups: {g: [alice, 'robot:r']}\n  rules:\n")
	for range 1 + random.IntN(6) {
		fmt.Fprintf(&b, "  - {who: [%s], repositories: ['%s'], %s: [%s]}\n",
			pick("anyone", "users", "alice", "bob", "'group:g'"), pick("**", "*", "a", "a/*", "a/**", "b/c"),
			pick("allow", "allow", "deny"), pick("pull", "push", "delete", "list", "tag-move", "admin", "'pull', 'push'", "'push', 'tag-move', 'list'"))
	}
	return b.String()
}

// decide returns the server's decision on a real request.
func decide(t *testing.T, g *gate, user, right string, name oci.Name) bool {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if user != "anonymous" {
		r.SetBasicAuth(user, user)
	}
	want := auth.Access{Repository: name}
	switch right {
	case "pull":
		want.Action = auth.Pull
	case "push", "tag-move":
		want.Action = auth.Push
	case "delete":
		want.Action = auth.Delete
	case "list":
		want = auth.Access{Action: auth.Catalog}
	case "admin":
		want = auth.Access{Action: auth.Administer}
	}
	grant, err := g.authorizer.Authorize(r, want)
	switch {
	case err != nil:
		return false
	case right == "tag-move":
		return grant.May(access.TagMove, name)
	case right == "admin":
		return grant.Administers(nil)
	case right == "list":
		return grant.Sees(name)
	default:
		return true
	}
}

// What `registry access explain` says is what the server decides.
func TestExplain_AgreesWithTheDecision(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 2))
	users, rights := []string{"anonymous", "alice", "bob"}, []string{"pull", "push", "tag-move", "delete", "list", "admin"}
	names := []oci.Name{"a", "b", "a/b", "a/b/c", "b/c"}
	outcomes := map[string]int{}
	for set := range 100 {
		text := randomRules(random)
		cfg := loadText(t, accessText(t, text))
		g, err := openAuth(t.Context(), cfg, &Backend{Store: memory.New()}, nil, nil, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		rules, err := loadRules(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 100 {
			user, right, name := users[random.IntN(3)], rights[random.IntN(6)], names[random.IntN(5)]
			if right == "admin" {
				name = ""
			}
			if user == "anonymous" && right == "list" && rules.ListsMore() {
				continue // the server asks for a login first
			}
			who := access.ParseCaller(user)
			word, _ := access.ParseRight(right)
			explained := rules.Explain(&who, word, name)
			if got := decide(t, g, user, right, name); got != explained.Allowed {
				t.Fatalf("set %d: %s %s %q: explained %q, decided %v\n%s", set, user, right, name, explained, got, text)
			}
			outcomes[fmt.Sprint(right, " ", explained.Allowed)]++
			if n == 0 {
				if _, got, err := Explain(t.Context(), cfg, user, nil, word, name, nil); err != nil || got != explained.String() {
					t.Errorf("Explain: %s, %v; want %s", got, err, explained)
				}
			}
		}
	}
	for _, right := range rights {
		for _, outcome := range []bool{true, false} {
			if n := outcomes[fmt.Sprint(right, " ", outcome)]; n < 20 {
				t.Errorf("%s: %d of 10,000 cases are decided %v, which proves little: %v", right, n, outcome, outcomes)
			}
		}
	}
}
