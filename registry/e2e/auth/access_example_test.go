package auth

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// The twelve lines of docs/registry/log-in-and-rights.md, with only their paths replaced, give a team anonymous
// pull, robots that push to their own prefix and two people who delete, and the command
// explains why.
func TestAccess_TwelveLines(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(programtest.Root(t), "docs", "registry", "log-in-and-rights.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, found := strings.Cut(text, "```\n")
	if lines := strings.Count(text, "\n"); !found || lines != 12 {
		t.Fatalf("the configuration has %d lines:\n%s", lines, text)
	}
	root := t.TempDir()
	htpasswd := filepath.Join(root, "htpasswd")
	text = strings.NewReplacer("/etc/docker/registry/auth/htpasswd", htpasswd, "/var/lib/registry", root).Replace(text)
	var users strings.Builder
	for _, user := range []string{"alice", "bob", "carl"} {
		users.WriteString(harness.HashLine(t, user, "secret of "+user))
	}
	harness.WriteFile(t, htpasswd, []byte(users.String()))
	x := &harness.Team{Config: filepath.Join(root, "config.yml")}
	harness.WriteFile(t, x.Config, []byte(text))
	addr := programtest.FreeAddr(t)
	cmd := exec.Command(harness.Binary, "serve", x.Config)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "REGISTRY_HTTP_ADDR=" + addr, "REGISTRY_HTTP_SECRET=s"}
	x.Process = harness.Start(t, addr, cmd)

	x.Registry(t, "robot", "create", "ci-tools")
	made := x.Registry(t, "robot", "create", "ci-web")
	_, password, _ := strings.Cut(made, "Password:")
	password = strings.TrimSpace(strings.SplitN(password, "\n", 2)[0])
	img := harness.NewImage(t, 15, 1, 1_000)
	layout := img.Layout(t, "v1")
	push := func(creds, repo string) error {
		_, err := harness.TryTool(t, nil, "skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", "--dest-creds", creds, "oci:"+layout+":v1", "docker://"+x.Addr+"/"+repo+":v1")
		return err
	}
	if err := push("robot+ci-web:"+password, "web/app"); err != nil {
		t.Errorf("a robot pushes to its own prefix: %v", err)
	}
	if push("robot+ci-web:"+password, "tools/app") == nil {
		t.Error("a robot pushed to the prefix of another")
	}
	if push("alice:secret of alice", "web/app") == nil {
		t.Error("a user pushed whom no rule lets push")
	}
	anonymous, _ := x.Token(t, "", "", "repository:web/app:pull")
	if got := x.Status(t, "GET", "/v2/web/app/manifests/v1", anonymous); got != http.StatusOK {
		t.Errorf("anonymous pull: %d", got)
	}
	remove := func(user string) int {
		token, _ := x.Token(t, user, "secret of "+user, "repository:web/app:delete")
		return x.Status(t, "DELETE", "/v2/web/app/manifests/v1", token)
	}
	if got := remove("carl"); got != http.StatusForbidden && got != http.StatusUnauthorized {
		t.Errorf("deletion by a third: %d", got)
	}
	for _, user := range []string{"alice", "bob"} {
		if got := remove(user); got != http.StatusAccepted {
			t.Errorf("deletion by %s: %d", user, got)
		}
		if err := push("robot+ci-web:"+password, "web/app"); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ who, repository, right, want string }{
		{"anonymous", "web/app", "pull", "allowed by rules[0]: anyone in **: allow pull, list"},
		{"anonymous", "web/app", "push", "denied: no rule allows it"},
		{"robot:ci-web", "web/app", "push", "allowed by rules[1]: robot:ci-web in web/**: allow push, tag-move"},
		{"robot:ci-web", "tools/app", "push", "denied: no rule allows it"},
		{"bob", "web/app", "delete", "allowed by rules[3]: group:owners in **: allow delete"},
		{"carl", "web/app", "delete", "denied: no rule allows it"},
	} {
		if got := strings.TrimSpace(x.Registry(t, "access", "explain", tt.who, tt.repository, tt.right)); got != tt.want {
			t.Errorf("%s %s %s: %s; want %s", tt.who, tt.right, tt.repository, got, tt.want)
		}
	}
}

// In a cache of Docker Hub a rule for one name of an image is one for its other name, also
// after the file of rules has changed.
func TestAccess_BothNamesOfACache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.yml")
	rules := func(denied string) {
		harness.WriteFile(t, file, []byte("rules:\n- {who: [anyone], repositories: ["+denied+"], deny: [pull]}\n- {who: [anyone], repositories: ['hub/*'], allow: [pull]}\n"))
	}
	rules("hub/mysql")
	p := harness.StartRegistry(t, t.TempDir(), "REGISTRY_ACCESS_FILE="+file, "REGISTRY_PROXY_UPSTREAMS=[{prefix: hub, remoteurl: 'https://registry-1.docker.io', offline: true}]")
	refused := func(image string) (short, long bool) {
		t.Helper()
		for prefix, is := range map[string]*bool{"hub/": &short, "hub/library/": &long} {
			resp, body := harness.Fetch(t, "GET", "http://"+p.Addr+"/v2/"+prefix+image+"/manifests/v1", nil, nil)
			if *is = resp.StatusCode == http.StatusForbidden; !*is && resp.StatusCode != http.StatusBadGateway { // the upstream is not asked
				t.Errorf("%s%s: %s %s", prefix, image, resp.Status, body)
			}
		}
		return short, long
	}
	want := func(image string, denied bool) {
		t.Helper()
		if short, long := refused(image); short != denied || long != denied {
			t.Errorf("hub/%s is refused: %v, hub/library/%[1]s: %v, want %v", image, short, long, denied)
		}
	}
	want("mysql", true)
	want("redis", false)
	rules("hub/library/redis")
	harness.Eventually(t, "the new rules count", func() bool { short, _ := refused("redis"); return short })
	want("mysql", false)
	want("redis", true)
}
