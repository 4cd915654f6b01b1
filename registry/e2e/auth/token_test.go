package auth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

// A token of one replica counts at the other. A robot that is revoked at one, with its
// tokens, is refused by both within seconds; so is a user whose password has changed.
func TestTokenService_Replicas(t *testing.T) {
	root := t.TempDir()
	rules := strings.ReplaceAll(harness.TeamRules, "[pull, list]", "[list]")
	one := harness.StartTeam(t, root, rules)
	two := harness.StartTeam(t, root, rules)
	img := harness.NewImage(t, 8, 1, 1_000)
	img.Push(t, harness.AsAlice(one.Addr), "ci/app", "v1")

	admin, _ := one.Token(t, "alice", "secret of alice", "registry:slipway:*")
	if admin == "" {
		t.Fatal("no token for the administrator")
	}
	resp, body := harness.Fetch(t, "POST", "http://"+one.Addr+"/v2/_slipway/robots", harness.Bearer(admin), strings.NewReader(`{"name":"puller","repositories":["ci/**"],"allow":["pull"]}`))
	var made struct{ Username, Password string }
	if err := json.Unmarshal(body, &made); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s", resp.Status, body)
	}
	if list := one.Registry(t, "robot", "list"); !strings.Contains(list, "puller") || strings.Contains(list, made.Password) {
		t.Errorf("robot list: %s", list)
	}

	token, _ := one.Token(t, made.Username, made.Password, "repository:ci/app:pull")
	const path = "/v2/ci/app/manifests/v1"
	harness.Eventually(t, "the new robot is known to the other replica", func() bool { return two.Status(t, "GET", path, token) == http.StatusOK })
	if got := one.Status(t, "GET", path, token); got != http.StatusOK {
		t.Errorf("token of a robot: %d", got)
	}
	if got := one.Status(t, "DELETE", path, token); got != http.StatusForbidden {
		t.Errorf("deletion by a robot that may only pull: %d", got)
	}

	resp, body = harness.Fetch(t, "DELETE", "http://"+two.Addr+"/v2/_slipway/robots/puller", harness.Bearer(admin), nil)
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("%s %s", resp.Status, body)
	}
	if got := two.Status(t, "GET", path, token); got != http.StatusUnauthorized {
		t.Errorf("token of a revoked robot where it was revoked: %d", got)
	}
	harness.Eventually(t, "the revoked robot's token is refused by the other replica", func() bool { return one.Status(t, "GET", path, token) == http.StatusUnauthorized })
	if _, resp := two.Token(t, made.Username, made.Password, "repository:ci/app:pull"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("login of a revoked robot: %s", resp.Status)
	}

	refreshed := func(x *harness.Team, refresh string) (answer struct {
		Token   string
		Refresh string `json:"refresh_token"`
	},
	) {
		t.Helper()
		form := url.Values{"grant_type": {"refresh_token"}, "service": {"registry"}, "refresh_token": {refresh}, "scope": {"repository:ci/app:pull"}}
		resp, body := harness.Fetch(t, "POST", "http://"+x.Addr+"/auth/token", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, strings.NewReader(form.Encode()))
		if err := json.Unmarshal(body, &answer); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("refresh: %s %s", resp.Status, body)
		}
		return answer
	}
	_, body = harness.Fetch(t, "GET", "http://"+one.Addr+"/auth/token?service=registry&offline_token=true", harness.BasicAuth("bob", "secret of bob"), nil)
	var bob struct {
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal(body, &bob); err != nil || bob.Refresh == "" {
		t.Fatalf("%v in %s", err, body)
	}
	there := refreshed(two, bob.Refresh)
	if got := one.Status(t, "GET", path, there.Token); got != http.StatusOK {
		t.Errorf("token that the other replica has refreshed: %d", got)
	}
	refreshed(one, there.Refresh)

	carl, _ := one.Token(t, "carl", "secret of carl", "repository:carl/x:pull")
	if got := one.Status(t, "GET", "/v2/", carl); got != http.StatusOK {
		t.Fatalf("token of a user: %d", got)
	}
	harness.WriteFile(t, filepath.Join(root, "htpasswd"), []byte(harness.HashLine(t, "carl", "another")))
	harness.Eventually(t, "the token of a user whose password was changed is refused", func() bool { return one.Status(t, "GET", "/v2/", carl) == http.StatusUnauthorized })
}

// Rules in a file of their own count soon after an edit; a broken edit changes nothing.
func TestAccessFile_IsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.yml")
	harness.WriteFile(t, file, []byte("rules:\n- {who: [anyone], repositories: ['**'], allow: [pull]}\n"))
	x := harness.StartTeam(t, t.TempDir(), "access: {file: "+file+"}\n")
	anonymous := func() int {
		resp, _ := harness.Fetch(t, "GET", "http://"+x.Addr+"/v2/a/manifests/v1", nil, nil)
		return resp.StatusCode
	}
	if got := anonymous(); got != http.StatusNotFound {
		t.Fatalf("anonymous pull: %d", got)
	}
	if got := x.Registry(t, "access", "explain", "anonymous", "a", "pull"); !strings.HasPrefix(got, "allowed by rules[0]: anyone in **: allow pull") {
		t.Errorf("explain: %s", got)
	}
	harness.WriteFile(t, file, []byte("rules:\n- {who: [anyone], repositories: ['**'], alow: [pull]}\n"))
	harness.Eventually(t, "the log says that the rules are broken", func() bool {
		anonymous()
		return strings.Contains(x.Output(), "cannot reload the access rules") && strings.Contains(x.Output(), "alow")
	})
	if got := anonymous(); got != http.StatusNotFound {
		t.Errorf("anonymous pull after a broken edit: %d", got)
	}
	harness.WriteFile(t, file, []byte("rules:\n- {who: [users], repositories: ['**'], allow: [pull]}\n"))
	harness.Eventually(t, "the new rules count", func() bool { return anonymous() == http.StatusUnauthorized })
}
