package auth

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// users are requests of alice, an administrator.
type users struct {
	*testing.T
	addr string
}

// ask makes a request and returns the password in the answer.
func (u users) ask(method, path, body string, status int) string {
	u.Helper()
	header := harness.BasicAuth("alice", "secret of alice")
	header.Set("Content-Type", "application/json")
	resp, answer := harness.Fetch(u, method, "http://"+u.addr+"/v2/_slipway"+path, header, strings.NewReader(body))
	if resp.StatusCode != status {
		u.Fatalf("%s %s: %d, want %d: %s", method, path, resp.StatusCode, status, answer)
	}
	var login struct{ Password string }
	_ = json.Unmarshal(answer, &login)
	return login.Password
}

// crane reports whether crane lists the repositories with a login.
func crane(t *testing.T, addr, user, password string) bool {
	t.Helper()
	env := []string{"DOCKER_CONFIG=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	if out, err := harness.TryTool(t, env, "crane", "auth", "login", addr, "-u", user, "-p", password); err != nil {
		t.Fatalf("crane auth login: %v: %s", err, out)
	}
	_, err := harness.TryTool(t, env, "crane", "catalog", addr)
	return err == nil
}

// TestUsers: two replicas share the password file, and distribution can take it over.
func TestUsers(t *testing.T) { testUsers(t, harness.Distribution2) }

func TestFull_UsersOfDistribution3(t *testing.T) { testUsers(t, harness.Distribution3) }

func testUsers(t *testing.T, peer harness.Peer) {
	root := t.TempDir()
	one, two := harness.StartTeam(t, root, harness.TeamRules), harness.StartTeam(t, root, harness.TeamRules)
	u := users{t, one.Addr}
	erin, frank := u.ask("POST", "/users", `{"name":"erin"}`, 201), u.ask("POST", "/users", `{"name":"frank"}`, 201)
	harness.Eventually(t, "erin logs in at the other replica", func() bool { return crane(t, two.Addr, "erin", erin) })
	if !crane(t, one.Addr, "erin", erin) || !crane(t, one.Addr, "frank", frank) {
		t.Error("a new user can't log in")
	}
	u.ask("PATCH", "/users/frank", `{"disabled":true}`, 204)
	old := erin
	erin = u.ask("POST", "/users/erin/password", "", 200)
	u.addr = two.Addr
	u.ask("PUT", "/account/password", `{"present":"secret of alice","new":"secret of alice, too"}`, 204)
	harness.Eventually(t, "the other replica refuses frank and the old password", func() bool { return !crane(t, two.Addr, "frank", frank) && !crane(t, two.Addr, "erin", old) })
	if crane(t, one.Addr, "frank", frank) || crane(t, one.Addr, "erin", old) || !crane(t, one.Addr, "erin", erin) {
		t.Error("a disabled user or an old password logs in")
	}
	config := filepath.Join(t.TempDir(), "config.yml")
	addr := programtest.FreeAddr(t)
	harness.WriteFile(t, config, []byte("version: 0.1\nlog: {level: warn, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: "+root+"/registry}}\nhttp: {addr: '"+addr+"'}\n"+
		"auth: {htpasswd: {realm: r, path: "+filepath.Join(root, "htpasswd")+"}}\n"))
	cmd := exec.Command(programtest.Tool(t, peer.Tool), "serve", config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	harness.Start(t, addr, cmd)
	for _, login := range []struct {
		user, password string
		in             bool
	}{{"erin", erin, true}, {"erin", old, false}, {"frank", frank, false}, {"frank", "", false}, {"alice", "secret of alice, too", true}} {
		resp, _ := harness.Fetch(t, "GET", "http://"+addr+"/v2/", harness.BasicAuth(login.user, login.password), nil)
		if in := resp.StatusCode == http.StatusOK; in != login.in {
			t.Errorf("%s: %s: %d", peer.Name, login.user, resp.StatusCode)
		}
	}
}

// TestUsers_WriterIsKilled between writing the file and putting it in its place.
func TestUsers_WriterIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	harness.WriteUser(t, path, "alice", "x")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	calls := "rename,renameat,renameat2"
	cmd := exec.Command(programtest.Tool(t, "strace"), "-f", "-o", "/dev/null", "-e", "trace="+calls, "-e", "inject="+calls+":error=EIO:signal=KILL", harness.Binary, "htpasswd", path, "bob")
	cmd.Stdin = strings.NewReader("a password")
	out, err := cmd.CombinedOutput()
	after, readErr := os.ReadFile(path)
	if err == nil || readErr != nil || string(after) != string(before) {
		t.Fatalf("the writer lives, or changed the file: %v, %v: %s", err, readErr, out)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".htpasswd.new")); err != nil || len(left) != 1 {
		t.Fatalf("the writer was killed before it wrote: %v, %v", left, err)
	}
	harness.Run(t, nil, "htpasswd", "--delete", path, "alice")
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the file and its lock: %v, %v", entries, err)
	}
	if after, err := os.ReadFile(path); err != nil || len(after) > 0 {
		t.Errorf("the next change: %q, %v", after, err)
	}
}

func TestUsers_OfAFileThatCannotBeReplaced(t *testing.T) {
	for name, flags := range map[string]uintptr{"it is mounted by itself": 0, "its file system is read-only": syscall.MS_RDONLY} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			attach(t, "slipway-test", root, "tmpfs", 0)
			harness.WriteTeam(t, filepath.Join(root, "htpasswd"))
			if flags == 0 {
				attach(t, filepath.Join(root, "htpasswd"), filepath.Join(root, "htpasswd"), "", syscall.MS_BIND)
			} else {
				attach(t, "", root, "", syscall.MS_REMOUNT|flags)
			}
			x := harness.StartTeamOn(t, "{filesystem: {rootdirectory: "+t.TempDir()+"}}", root, harness.TeamRules)
			resp, body := harness.Fetch(t, "GET", "http://"+x.Addr+"/v2/_slipway/users", harness.BasicAuth("alice", "secret of alice"), nil)
			if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"read_only":"`+name) {
				t.Errorf("%d: %s", resp.StatusCode, body)
			}
			users{t, x.Addr}.ask("POST", "/users", `{"name":"erin"}`, 409)
		})
	}
}
