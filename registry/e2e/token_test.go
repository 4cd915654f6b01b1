package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// teamRules are those of docs/access.md: everybody pulls, a robot pushes, two people
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
	addr, htpasswd := programtest.FreeAddr(t), filepath.Join(root, "htpasswd")
	if _, err := os.Stat(htpasswd); err != nil {
		var users strings.Builder
		for _, user := range []string{"alice", "bob", "carl"} {
			users.WriteString(hashLine(t, user, "secret of "+user))
		}
		writeFile(t, htpasswd, []byte(users.String()))
	}
	if err := os.MkdirAll(filepath.Join(root, "registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	x := &team{config: filepath.Join(t.TempDir(), "config.yml")}
	writeFile(t, x.config, []byte("version: 0.1\nlog: {level: warn, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: "+filepath.Join(root, "registry")+"}, delete: {enabled: true}}\n"+
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

// Unmodified clients log in, push and pull through the built-in token service, and pull
// without a login.
func TestTokenService_Clients(t *testing.T) {
	x := startTeam(t, t.TempDir(), teamRules)
	user, password := x.robot(t, "ci", "ci/**", "push,tag-move")
	img := newImage(t, 7, 2, 10_000)
	layout := img.layout(t, "v1")

	t.Run("crane", func(t *testing.T) {
		env := []string{"DOCKER_CONFIG=" + t.TempDir(), "HOME=" + t.TempDir()}
		if out, err := tryTool(t, env, "crane", "--insecure", "push", layout, x.addr+"/ci/crane:v1"); err == nil {
			t.Errorf("push without a login: %s", out)
		}
		for _, args := range [][]string{
			{"auth", "login", x.addr, "-u", user, "-p", password},
			{"push", layout, x.addr + "/ci/crane:v1"},
			{"copy", x.addr + "/ci/crane:v1", x.addr + "/ci/copy:v1"}, // mounts
			{"ls", x.addr + "/ci/copy"},
		} {
			if out, err := tryTool(t, env, "crane", append([]string{"--insecure"}, args...)...); err != nil {
				t.Fatalf("crane %v: %v\n%s", args, err, out)
			}
		}
		if out, err := tryTool(t, env, "crane", "--insecure", "push", layout, x.addr+"/other/crane:v1"); err == nil || !strings.Contains(out, "DENIED") {
			t.Errorf("push into a repository of others: %v\n%s", err, out)
		}
		if out, err := tryTool(t, env, "crane", "--insecure", "catalog", x.addr); err != nil || !strings.Contains(out, "ci/copy") {
			t.Errorf("catalog: %v\n%s", err, out)
		}
		anonymous := []string{"DOCKER_CONFIG=" + t.TempDir(), "HOME=" + t.TempDir()}
		if out, err := tryTool(t, anonymous, "crane", "--insecure", "validate", "--remote", x.addr+"/ci/crane:v1"); err != nil {
			t.Errorf("anonymous pull: %v\n%s", err, out)
		}
	})

	t.Run("skopeo", func(t *testing.T) {
		ref := "docker://" + x.addr + "/carl/skopeo:v1"
		runTool(t, "skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", "--dest-creds", "carl:secret of carl", "oci:"+layout+":v1", ref)
		runTool(t, "skopeo", "inspect", "--tls-verify=false", "--no-creds", ref)
		if out, err := tryTool(t, nil, "skopeo", "delete", "--tls-verify=false", "--creds", "carl:secret of carl", ref); err == nil {
			t.Errorf("delete by one who may not: %s", out)
		}
		runTool(t, "skopeo", "delete", "--tls-verify=false", "--creds", "bob:secret of bob", ref)
	})

	t.Run("podman", func(t *testing.T) {
		podman := podmanArgs(t, "podman")
		file := filepath.Join(t.TempDir(), "auth.json")
		podman("login", "--authfile", file, "--tls-verify=false", "-u", user, "-p", password, x.addr)
		img.pushAs(t, x, "ci/podman", "v1")
		id := lastLine(podman("pull", "-q", "--tls-verify=false", x.addr+"/ci/podman:v1"))
		podman("push", "-q", "--authfile", file, "--tls-verify=false", id, "docker://"+x.addr+"/ci/podman:v2")
	})

	t.Run("containerd", func(t *testing.T) {
		ctr := startContainerd(t)
		img.pushAs(t, x, "ci/ctr", "v1")
		ref := x.addr + "/ci/ctr:v1"
		ctr("content", "fetch", "--plain-http", "--all-platforms", ref)
		ctr("images", "push", "--plain-http", "--user", user+":"+password, x.addr+"/ci/ctr:v2", ref)
	})

	t.Run("regctl", func(t *testing.T) {
		env := regctlHome(t, x.addr)
		for _, args := range [][]string{
			{"registry", "login", x.addr, "-u", user, "-p", password, "--skip-check"},
			{"image", "copy", "ocidir://" + layout + ":v1", x.addr + "/ci/regctl:v1"},
			{"image", "copy", x.addr + "/ci/regctl:v1", "ocidir://" + t.TempDir() + ":v1"},
		} {
			if out, err := tryTool(t, env, "regctl", args...); err != nil {
				t.Fatalf("regctl %v: %v\n%s", args, err, out)
			}
		}
	})

	t.Run("helm", func(t *testing.T) {
		dir := t.TempDir()
		env := []string{"HOME=" + dir, "HELM_REGISTRY_CONFIG=" + filepath.Join(dir, "login.json")}
		for _, args := range [][]string{
			{"create", filepath.Join(dir, "hello")},
			{"package", filepath.Join(dir, "hello"), "--version", "1.2.3", "-d", dir},
			{"registry", "login", "--plain-http", "-u", user, "-p", password, x.addr},
			{"push", "--plain-http", filepath.Join(dir, "hello-1.2.3.tgz"), "oci://" + x.addr + "/ci/charts"},
			{"registry", "logout", x.addr},
			{"pull", "--plain-http", "oci://" + x.addr + "/ci/charts/hello", "--version", "1.2.3", "-d", t.TempDir()},
		} {
			if out, err := tryTool(t, env, "helm", args...); err != nil {
				t.Fatalf("helm %v: %v\n%s", args, err, out)
			}
		}
	})

	t.Run("cosign", func(t *testing.T) {
		dir := t.TempDir()
		env := []string{"COSIGN_PASSWORD=", "HOME=" + dir, "DOCKER_CONFIG=" + dir}
		img.pushAs(t, x, "ci/signed", "v1")
		ref := x.addr + "/ci/signed@" + img.manifest
		for _, args := range [][]string{
			{"generate-key-pair", "--output-key-prefix", filepath.Join(dir, "k")},
			{"sign", "--yes", "--key", filepath.Join(dir, "k.key"), "--tlog-upload=false", "--allow-insecure-registry", "--allow-http-registry", "--registry-username", user, "--registry-password", password, ref},
			{"verify", "--key", filepath.Join(dir, "k.pub"), "--insecure-ignore-tlog", "--allow-insecure-registry", "--allow-http-registry", ref},
		} {
			if out, err := tryTool(t, env, "cosign", args...); err != nil {
				t.Fatalf("cosign %v: %v\n%s", args, err, out)
			}
		}
	})
	if out := x.Output(); strings.Contains(out, password) || strings.Contains(out, "secret of") {
		t.Error("a password is in the log")
	}
}

// Docker's engine pulls without a login, which it cannot where Basic is asked for, and
// stores a refresh token instead of the password.
func TestTokenService_DockerEngine(t *testing.T) {
	x := startTeam(t, t.TempDir(), teamRules)
	e := startEngine(t)
	e.busybox()
	ref := x.addr + "/carl/hello:1"
	e.build(ref)
	if out, err := e.try("push", ref); err == nil {
		t.Errorf("push without a login: %s", out)
	}
	if out, err := e.try("login", "-u", "carl", "-p", "wrong", x.addr); err == nil || !strings.Contains(out, "401 Unauthorized") && !strings.Contains(out, "unauthorized") {
		t.Errorf("login with a wrong password: %v\n%s", err, out)
	}
	e.run("login", "-u", "carl", "-p", "secret of carl", x.addr)
	if stored, err := os.ReadFile(filepath.Join(e.config, "config.json")); err != nil || strings.Contains(string(stored), base64.StdEncoding.EncodeToString([]byte("carl:secret of carl"))) {
		t.Errorf("the engine stores the password: %s, %v", stored, err)
	}
	e.run("push", ref)
	other := x.addr + "/other/hello:1"
	e.run("tag", ref, other)
	if out, err := e.try("push", other); err == nil || !strings.Contains(out, "denied") {
		t.Errorf("push into a repository of others: %v\n%s", err, out)
	}
	e.run("logout", x.addr)
	e.run("rmi", ref)
	e.run("pull", ref)
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
