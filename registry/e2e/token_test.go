package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// teamRules are those of docs/registry/log-in-and-rights.md: everybody pulls, a robot pushes, two people
// delete.
const teamRules = `
access:
  groups:
    owners: [alice, bob]
  rules:
    - {who: [anyone], repositories: ["**"], allow: [pull, list]}
    - {who: [carl], repositories: ["carl/**"], allow: [push, tag-move]}
    - {who: ["group:owners"], repositories: ["**"], allow: [push, tag-move, delete]}
    - {who: [alice], repositories: ["**"], allow: [admin]}
`

// team is a registry with its own token service, and robots.
type team struct {
	*process
	config string
}

// startTeam serves root; several on one root are replicas.
func startTeam(t testing.TB, root, rules string, more ...string) *team {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, "registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	return startTeamOn(t, "{filesystem: {rootdirectory: "+filepath.Join(root, "registry")+"}, delete: {enabled: true}}", root, rules, more...)
}

// startTeamOn serves a storage; root has the password file.
func startTeamOn(t testing.TB, storage, root, rules string, more ...string) *team {
	t.Helper()
	addr, htpasswd := programtest.FreeAddr(t), filepath.Join(root, "htpasswd")
	if _, err := os.Stat(htpasswd); err != nil {
		var users strings.Builder
		for _, user := range []string{"alice", "bob", "carl"} {
			users.WriteString(hashLine(t, user, "secret of "+user))
		}
		writeFile(t, htpasswd, []byte(users.String()))
	}
	x := &team{config: filepath.Join(t.TempDir(), "config.yml")}
	writeFile(t, x.config, []byte("version: 0.1\nlog: {level: warn, accesslog: {disabled: true}}\nstorage: "+storage+"\n"+
		"http: {addr: '"+addr+"', secret: shared-by-all-replicas}\nauth: {htpasswd: {path: "+htpasswd+"}, service: builtin}\n"+rules+strings.Join(more, "\n")))
	cmd := exec.Command(binary, "serve", x.config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	x.process = start(t, addr, cmd)
	return x
}

// registry runs a command of the registry with the team's configuration.
func (x *team) registry(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, append(args, x.config)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("registry %v: %v\n%s", args, err, errorOutput(err))
	}
	return string(out)
}

// robot makes a robot account.
func (x *team) robot(t testing.TB, name, repositories, rights string) (user, password string) {
	t.Helper()
	var made struct{ Username, Password string }
	if err := json.Unmarshal([]byte(x.registry(t, "robot", "create", name, "--json", "--repositories", repositories, "--allow", rights)), &made); err != nil {
		t.Fatal(err)
	}
	return made.Username, made.Password
}

// token asks the service for a token.
func (x *team) token(t testing.TB, user, password string, scopes ...string) (string, *http.Response) {
	t.Helper()
	header := http.Header{}
	if user != "" {
		header = basicAuth(user, password)
	}
	resp, body := fetch(t, "GET", "http://"+x.addr+"/auth/token?service=registry&scope="+strings.Join(scopes, "&scope="), header, nil)
	var answer struct{ Token string }
	_ = json.Unmarshal(body, &answer)
	return answer.Token, resp
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// status is the status of a request with a token.
func (x *team) status(t testing.TB, method, path, token string) int {
	t.Helper()
	resp, _ := fetch(t, method, "http://"+x.addr+path, bearer(token), nil)
	return resp.StatusCode
}

// A token of one replica counts at the other. A robot that is revoked at one, with its
// tokens, is refused by both within seconds; so is a user whose password has changed.
func TestTokenService_Replicas(t *testing.T) {
	root := t.TempDir()
	rules := strings.ReplaceAll(teamRules, "[pull, list]", "[list]")
	one := startTeam(t, root, rules)
	two := startTeam(t, root, rules)
	img := newImage(t, 8, 1, 1_000)
	img.pushAs(t, one, "ci/app", "v1")

	admin, _ := one.token(t, "alice", "secret of alice", "registry:slipway:*")
	if admin == "" {
		t.Fatal("no token for the administrator")
	}
	resp, body := fetch(t, "POST", "http://"+one.addr+"/v2/_slipway/robots", bearer(admin), strings.NewReader(`{"name":"puller","repositories":["ci/**"],"allow":["pull"]}`))
	var made struct{ Username, Password string }
	if err := json.Unmarshal(body, &made); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s", resp.Status, body)
	}
	if list := one.registry(t, "robot", "list"); !strings.Contains(list, "puller") || strings.Contains(list, made.Password) {
		t.Errorf("robot list: %s", list)
	}

	token, _ := one.token(t, made.Username, made.Password, "repository:ci/app:pull")
	const path = "/v2/ci/app/manifests/v1"
	eventually(t, "the new robot is known to the other replica", func() bool { return two.status(t, "GET", path, token) == http.StatusOK })
	if got := one.status(t, "GET", path, token); got != http.StatusOK {
		t.Errorf("token of a robot: %d", got)
	}
	if got := one.status(t, "DELETE", path, token); got != http.StatusForbidden {
		t.Errorf("deletion by a robot that may only pull: %d", got)
	}

	resp, body = fetch(t, "DELETE", "http://"+two.addr+"/v2/_slipway/robots/puller", bearer(admin), nil)
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("%s %s", resp.Status, body)
	}
	if got := two.status(t, "GET", path, token); got != http.StatusUnauthorized {
		t.Errorf("token of a revoked robot where it was revoked: %d", got)
	}
	eventually(t, "the revoked robot's token is refused by the other replica", func() bool { return one.status(t, "GET", path, token) == http.StatusUnauthorized })
	if _, resp := two.token(t, made.Username, made.Password, "repository:ci/app:pull"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("login of a revoked robot: %s", resp.Status)
	}

	refreshed := func(x *team, refresh string) (answer struct {
		Token   string
		Refresh string `json:"refresh_token"`
	},
	) {
		t.Helper()
		form := url.Values{"grant_type": {"refresh_token"}, "service": {"registry"}, "refresh_token": {refresh}, "scope": {"repository:ci/app:pull"}}
		resp, body := fetch(t, "POST", "http://"+x.addr+"/auth/token", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, strings.NewReader(form.Encode()))
		if err := json.Unmarshal(body, &answer); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("refresh: %s %s", resp.Status, body)
		}
		return answer
	}
	_, body = fetch(t, "GET", "http://"+one.addr+"/auth/token?service=registry&offline_token=true", basicAuth("bob", "secret of bob"), nil)
	var bob struct {
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal(body, &bob); err != nil || bob.Refresh == "" {
		t.Fatalf("%v in %s", err, body)
	}
	there := refreshed(two, bob.Refresh)
	if got := one.status(t, "GET", path, there.Token); got != http.StatusOK {
		t.Errorf("token that the other replica has refreshed: %d", got)
	}
	refreshed(one, there.Refresh)

	carl, _ := one.token(t, "carl", "secret of carl", "repository:carl/x:pull")
	if got := one.status(t, "GET", "/v2/", carl); got != http.StatusOK {
		t.Fatalf("token of a user: %d", got)
	}
	writeFile(t, filepath.Join(root, "htpasswd"), []byte(hashLine(t, "carl", "another")))
	eventually(t, "the token of a user whose password was changed is refused", func() bool { return one.status(t, "GET", "/v2/", carl) == http.StatusUnauthorized })
}

// Rules in a file of their own count soon after an edit; a broken edit changes nothing.
func TestAccessFile_IsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.yml")
	writeFile(t, file, []byte("rules:\n- {who: [anyone], repositories: ['**'], allow: [pull]}\n"))
	x := startTeam(t, t.TempDir(), "access: {file: "+file+"}\n")
	anonymous := func() int {
		resp, _ := fetch(t, "GET", "http://"+x.addr+"/v2/a/manifests/v1", nil, nil)
		return resp.StatusCode
	}
	if got := anonymous(); got != http.StatusNotFound {
		t.Fatalf("anonymous pull: %d", got)
	}
	if got := x.registry(t, "access", "explain", "anonymous", "a", "pull"); !strings.HasPrefix(got, "allowed by rules[0]: anyone in **: allow pull") {
		t.Errorf("explain: %s", got)
	}
	writeFile(t, file, []byte("rules:\n- {who: [anyone], repositories: ['**'], alow: [pull]}\n"))
	eventually(t, "the log says that the rules are broken", func() bool {
		anonymous()
		return strings.Contains(x.Output(), "cannot reload the access rules") && strings.Contains(x.Output(), "alow")
	})
	if got := anonymous(); got != http.StatusNotFound {
		t.Errorf("anonymous pull after a broken edit: %d", got)
	}
	writeFile(t, file, []byte("rules:\n- {who: [users], repositories: ['**'], allow: [pull]}\n"))
	eventually(t, "the new rules count", func() bool { return anonymous() == http.StatusUnauthorized })
}

// eventually waits for what happens within seconds, even on a machine that is busy.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// pushAs pushes as the administrator.
func (img *image) pushAs(t testing.TB, x *team, repo, tag string) {
	t.Helper()
	runTool(t, "skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", "--dest-creds", "alice:secret of alice",
		"oci:"+img.layout(t, tag)+":"+tag, "docker://"+x.addr+"/"+repo+":"+tag)
}
