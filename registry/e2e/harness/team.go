package harness

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

// TeamRules are those of docs/registry/log-in-and-rights.md: everybody pulls, a robot pushes, two people
// delete.
const TeamRules = `
access:
  groups:
    owners: [alice, bob]
  rules:
    - {who: [anyone], repositories: ["**"], allow: [pull, list]}
    - {who: [carl], repositories: ["carl/**"], allow: [push, tag-move]}
    - {who: ["group:owners"], repositories: ["**"], allow: [push, tag-move, delete]}
    - {who: [alice], repositories: ["**"], allow: [admin]}
`

// Team is a registry with its own token service, and robots.
type Team struct {
	*Process
	Config string
}

// StartTeam serves root; several on one root are replicas.
func StartTeam(t testing.TB, root, rules string, more ...string) *Team {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, "registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	return StartTeamOn(t, "{filesystem: {rootdirectory: "+filepath.Join(root, "registry")+"}, delete: {enabled: true}}", root, rules, more...)
}

// StartTeamOn serves a storage; root has the password file.
func StartTeamOn(t testing.TB, storage, root, rules string, more ...string) *Team {
	t.Helper()
	addr, htpasswd := programtest.FreeAddr(t), filepath.Join(root, "htpasswd")
	if _, err := os.Stat(htpasswd); err != nil {
		WriteTeam(t, htpasswd)
	}
	x := &Team{Config: filepath.Join(t.TempDir(), "config.yml")}
	WriteFile(t, x.Config, []byte("version: 0.1\nlog: {level: warn, accesslog: {disabled: true}}\nstorage: "+storage+"\n"+
		"http: {addr: '"+addr+"', secret: shared-by-all-replicas}\nauth: {htpasswd: {path: "+htpasswd+"}, service: builtin}\n"+rules+strings.Join(more, "\n")))
	x.Process = Serve(t, addr, nil, x.Config)
	return x
}

// WriteTeam writes the password file of alice, bob and carl.
func WriteTeam(t testing.TB, htpasswd string) {
	t.Helper()
	var users strings.Builder
	for _, user := range []string{"alice", "bob", "carl"} {
		users.WriteString(HashLine(t, user, "secret of "+user))
	}
	WriteFile(t, htpasswd, []byte(users.String()))
}

// AsAlice is the address with the login of alice, the administrator.
func AsAlice(addr string) string { return "alice:secret%20of%20alice@" + addr }

// Registry runs a command of the registry with the team's configuration.
func (x *Team) Registry(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command(Binary, append(args, "--config", x.Config)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("registry %v: %v\n%s", args, err, errorOutput(err))
	}
	return string(out)
}

// Robot makes a robot account.
func (x *Team) Robot(t testing.TB, name, repositories, rights string) (user, password string) {
	t.Helper()
	var made struct{ Username, Password string }
	if err := json.Unmarshal([]byte(x.Registry(t, "robot", "create", name, "--json", "--repositories", repositories, "--allow", rights)), &made); err != nil {
		t.Fatal(err)
	}
	return made.Username, made.Password
}

// Token asks the service for a token.
func (x *Team) Token(t testing.TB, user, password string, scopes ...string) (string, *http.Response) {
	t.Helper()
	header := http.Header{}
	if user != "" {
		header = BasicAuth(user, password)
	}
	resp, body := Fetch(t, "GET", "http://"+x.Addr+"/auth/token?service=registry&scope="+strings.Join(scopes, "&scope="), header, nil)
	var answer struct{ Token string }
	_ = json.Unmarshal(body, &answer)
	return answer.Token, resp
}

// Status is the status of a request with a token.
func (x *Team) Status(t testing.TB, method, path, token string) int {
	t.Helper()
	resp, _ := Fetch(t, method, "http://"+x.Addr+path, Bearer(token), nil)
	return resp.StatusCode
}
