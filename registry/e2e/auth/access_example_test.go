package auth

import (
	"net/http"
	"os"
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
	text = strings.NewReplacer("/etc/distribution/auth/htpasswd", htpasswd, "/var/lib/registry", root).Replace(text)
	harness.WriteTeam(t, htpasswd)
	x := &harness.Team{Config: filepath.Join(root, "config.yml")}
	harness.WriteFile(t, x.Config, []byte(text))
	addr := programtest.FreeAddr(t)
	x.Process = harness.Serve(t, addr, []string{"REGISTRY_HTTP_ADDR=" + addr, "REGISTRY_HTTP_SECRET=s"}, x.Config)

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
		got, _ := harness.Run(t, nil, "access", "explain", "--config", x.Config, tt.who, tt.repository, tt.right)
		if got, _, _ = strings.Cut(got, "\n"); got != tt.want {
			t.Errorf("%s %s %s: %s; want %s", tt.who, tt.right, tt.repository, got, tt.want)
		}
	}
}
