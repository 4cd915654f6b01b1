package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"slipway/registry/internal/layout"
)

// accessConfig writes a configuration with the users alice and bob, whose passwords are
// their names, and these rules.
func accessConfig(t *testing.T, rules string) string {
	t.Helper()
	dir := t.TempDir()
	var users strings.Builder
	for _, user := range []string{"alice", "bob"} {
		hash, err := bcrypt.GenerateFromPassword([]byte(user), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&users, "%s:%s\n", user, hash)
	}
	path := filepath.Join(dir, "config.yml")
	for name, content := range map[string]string{
		filepath.Join(dir, "htpasswd"): users.String(),
		path:                           "version: 0.1\nstorage: {filesystem: {rootdirectory: " + dir + "}, delete: {enabled: true}}\nauth: {htpasswd: {realm: r, path: " + filepath.Join(dir, "htpasswd") + "}}\n" + rules,
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// Docker Hub's images have two names in a cache of it; explain knows both, as the server does.
func TestExplain_BothNamesOfACache(t *testing.T) {
	path := accessConfig(t, `proxy: {upstreams: [{prefix: hub, remoteurl: "https://registry-1.docker.io"}, {prefix: quay, remoteurl: "https://quay.io"}]}
access:
  rules:
  - {who: [anyone], repositories: [hub/mysql, quay/mysql], deny: [pull]}
  - {who: [anyone], repositories: ["hub/library/*", quay/library/mysql], allow: [pull]}
`)
	for name, want := range map[string]string{
		"hub/mysql": "denied by rules[0]", "hub/library/mysql": "denied by rules[0]",
		"hub/alpine": "allowed by rules[1]", "hub/library/alpine": "allowed by rules[1]",
		"quay/mysql": "denied by rules[0]", "quay/library/mysql": "allowed by rules[1]",
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"access", "explain", "anonymous", name, "pull", "-c", path}, nil, &out, &errs); (code == 3) != strings.HasPrefix(want, "denied") || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: %d, %s%s; want %s", name, code, out.String(), errs.String(), want)
		}
	}
}

// The first configuration of docs/registry/log-in-and-rights.md, with only its paths replaced, gives a team anonymous
// pull, robots that push to their own prefix and two people who delete.
func TestExplain_RulesOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../docs/registry/log-in-and-rights.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```\n")
	path := accessConfig(t, "")
	dir := filepath.Dir(path)
	text = strings.NewReplacer("/etc/distribution/auth/htpasswd", filepath.Join(dir, "htpasswd"), "/var/lib/registry", dir).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(args ...string) string {
		var out bytes.Buffer
		run(t.Context(), append(args, "--config", path), nil, &out, &out)
		first, _, _ := strings.Cut(out.String(), "\n")
		return first
	}
	do("robot", "create", "ci-tools")
	do("robot", "create", "ci-web")
	if _, err := htpasswdRun("secret", filepath.Join(dir, "htpasswd"), "carl"); err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]string{
		"anonymous web/app pull":      "allowed by rules[0]: anyone in **: allow pull, list",
		"anonymous web/app push":      "denied: no rule allows it",
		"alice web/app push":          "denied: no rule allows it",
		"robot:ci-web web/app push":   "allowed by rules[1]: robot:ci-web in web/**: allow push, tag-move",
		"robot:ci-web tools/app push": "denied: no rule allows it",
		"bob web/app delete":          "allowed by rules[3]: group:owners in **: allow delete",
		"carl web/app delete":         "denied: no rule allows it",
	} {
		if got := do(append([]string{"access", "explain"}, strings.Fields(request)...)...); got != want {
			t.Errorf("%s: %s; want %s", request, got, want)
		}
	}
}

func TestExplain_Refuses(t *testing.T) {
	path := accessConfig(t, "access: {rules: [{who: [users], repositories: ['**'], allow: [pull]}]}\n")
	open := filepath.Join(t.TempDir(), "open.yml")
	if err := os.WriteFile(open, []byte("version: 0.1\nstorage: {inmemory: {}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		`"fetch" is not one of the rights`:            {"alice", "a", "fetch", "-c", path},
		`"A" is not the name of a repository`:         {"alice", "A", "pull", "-c", path},
		`the robot "ci" cannot log in: no such robot`: {"robot:ci", "a", "pull", "-c", path},
		`there is no workload "w"`:                    {"workload:w", "a", "pull", "-c", path},
		"everybody may do everything":                 {"alice", "a", "pull", "-c", open},
		`"group:owners" is a group`:                   {"group:owners", "a", "pull", "-c", path},
		`"users" is many callers`:                     {"users", "a", "pull", "-c", path},
		`"anyone" is many callers`:                    {"anyone", "a", "pull", "-c", path},
		`"workload:" names nobody`:                    {"workload:", "a", "pull", "-c", path},
		"only people of an identity provider":         {"alice", "a", "pull", "-c", path, "--group", "dev"},
		"there is no user alicee in ":                 {"alicee", "a", "pull", "-c", path},
		"there is no user everyone in ":               {"user:everyone", "a", "pull", "-c", path},
		"there is no user robot+ci in ":               {"robot+ci", "a", "pull", "-c", path},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"access", "explain"}, args...), nil, &out, &errs); code == 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: %d, %s%s; want %q", args, code, out.String(), errs.String(), want)
		}
	}
}

// The rules of a person's groups apply to the groups that the command names.
func TestExplain_GroupsOfAPerson(t *testing.T) {
	path := accessConfig(t, `access:
  rules:
  - {who: ["oidc-group:left"], repositories: ["**"], deny: [pull]}
  - {who: ["oidc-group:dev, ops"], repositories: [web], allow: [pull]}
`)
	for _, tt := range []struct {
		want   string
		groups []string
	}{
		{"denied: no rule allows it", nil},
		{"denied: no rule allows it", []string{"dev", "ops"}},
		{"allowed by rules[1]", []string{"qa", "dev, ops"}},
		{"denied by rules[0]", []string{"dev, ops", "left"}},
	} {
		args := []string{"access", "explain", "oidc:anna", "web", "pull", "-c", path}
		for _, group := range tt.groups {
			args = append(args, "--group", group)
		}
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &errs); (code == 3) != strings.HasPrefix(tt.want, "denied") || !strings.HasPrefix(out.String(), tt.want) {
			t.Errorf("%q: %d, %s%s; want %s", tt.groups, code, out.String(), errs.String(), tt.want)
		}
	}
}

// A robot goes by its user name, too, where robots log in.
func TestExplain_RobotByItsUserName(t *testing.T) {
	path := accessConfig(t, "access: {rules: [{who: ['robot:ci'], repositories: [web], allow: [pull]}]}\n")
	t.Setenv("REGISTRY_AUTH_SERVICE", "builtin")
	do := func(args ...string) string {
		var out, errs bytes.Buffer
		run(t.Context(), append(args, "--config", path), nil, &out, &errs)
		return out.String() + errs.String()
	}
	if got := do("access", "explain", "robot+ci", "web", "pull"); !strings.Contains(got, `no such robot`) {
		t.Errorf("no robot yet: %s", got)
	}
	do("robot", "create", "ci")
	if got := do("access", "explain", "robot+ci", "web", "pull"); !strings.HasPrefix(got, "allowed by rules[0]") {
		t.Errorf("the robot: %s", got)
	}
}

func TestRobotCommands(t *testing.T) {
	path := accessConfig(t, "access: {rules: [{who: [users], repositories: ['**'], allow: [pull]}]}\n")
	do := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(t.Context(), append(args, "--config", path), nil, &out, &errs); code != want {
			t.Fatalf("%v: %d\n%s%s", args, code, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	made := do(0, "robot", "create", "ci", "--repositories", "web/**,tools/*", "--allow", "push", "--expires", "24h", "--note", "for CI")
	if !strings.Contains(made, "robot+ci") || !strings.Contains(made, "slipway_robot_") {
		t.Errorf("create: %s", made)
	}
	if got := do(0, "access", "explain", "robot:ci", "web/a", "push"); !strings.Contains(got, "allowed by the caller's own grants") {
		t.Errorf("explain: %s", got)
	}
	if got := do(0, "robot", "list"); !strings.Contains(got, "web/**,tools/*") || !strings.Contains(got, "for CI") || strings.Contains(got, "slipway_robot_") {
		t.Errorf("list: %s", got)
	}
	if got := do(1, "robot", "create", "ci", "--repositories", "a", "--allow", "pull"); !strings.Contains(got, "delete it first") {
		t.Errorf("a second one: %s", got)
	}
	if got := do(2, "robot", "create", "x", "--allow", "pull"); !strings.Contains(got, "--repositories and --allow belong together") {
		t.Errorf("without repositories: %s", got)
	}
	do(0, "robot", "create", "short", "--repositories", "web/**", "--allow", "push", "--expires", "24h")
	stored := filepath.Join(filepath.Dir(path), layout.Robots, "short")
	record, err := os.ReadFile(stored)
	if err != nil {
		t.Fatal(err)
	}
	record = regexp.MustCompile(`"expires":"[^"]*"`).ReplaceAll(record, []byte(`"expires":"2020-01-01T00:00:00Z"`))
	if err := os.WriteFile(stored, record, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := do(1, "access", "explain", "robot:short", "web/a", "push"); !strings.Contains(got, "has expired") {
		t.Errorf("explain: %s", got)
	}
	do(0, "robot", "delete", "ci", "--yes")
	if got := do(1, "robot", "delete", "ci", "-y"); !strings.Contains(got, "no such robot") {
		t.Errorf("a second revoke: %s", got)
	}
}
