package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"slipway/shared/programtest"
)

// checked is a configuration with its files, in memory.
type checked struct {
	*testing.T
	dir, path string
}

// newChecked writes the files; %s in a text is their directory.
func newChecked(t *testing.T, settings string, files map[string]string) checked {
	t.Helper()
	c := checked{t, t.TempDir(), ""}
	c.path = filepath.Join(c.dir, "config.yml")
	all := map[string]string{c.path: "version: 0.1\nstorage: {inmemory: }\nhttp: {addr: '127.0.0.1:0'}\n" + strings.ReplaceAll(settings, "%s", c.dir)}
	for name, content := range files {
		all[filepath.Join(c.dir, name)] = content
	}
	for path, content := range all {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// check runs `registry config check` and returns all that it says.
func (c checked) check() (code int, text string) {
	var out bytes.Buffer
	code = run(c.Context(), []string{"config", "check", "-c", c.path}, nil, &out, &out)
	return code, out.String()
}

// refuses wants the text from `registry config check` and from `registry serve`.
func (c checked) refuses(want string) {
	c.Helper()
	want = strings.ReplaceAll(want, "%s", c.dir)
	if code, text := c.check(); code != 1 || !strings.Contains(text, want) {
		c.Errorf("config check: %d, %s; want %s", code, text, want)
	}
	var out bytes.Buffer
	if code := run(c.Context(), []string{"serve", c.path}, nil, &out, &out); code != 1 || !strings.Contains(out.String(), want) {
		c.Errorf("serve: %d, %s; want %s", code, &out, want)
	}
}

// warns wants a warning from `registry config check`, and from `registry serve`, which starts, what its log matches.
func (c checked) warns(want, logged string) {
	c.Helper()
	want = strings.ReplaceAll(want, "%s", c.dir)
	if code, text := c.check(); code != 0 || !strings.Contains(text, "warning: "+want+"\n") || !strings.Contains(text, "the configuration is valid\n") {
		c.Errorf("config check: %d, %s; want %s", code, text, want)
	}
	r := start(c.T, nil, c.path)
	r.find(logged)
	r.stop()
	<-r.code
}

func hashed(t *testing.T, user string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(user), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return user + ":" + string(hash) + "\n"
}

const withPasswords = "auth: {htpasswd: {realm: r, path: %s/htpasswd}}\n"

func TestConfigCheck_PasswordFileThatLetsNobodyIn(t *testing.T) {
	const md5 = "# made by htpasswd -m\nalice:$apr1$abcdefgh$0123456789012345678901\n"
	newChecked(t, withPasswords, map[string]string{"htpasswd": md5}).refuses(
		"auth.htpasswd.path: no one can log in: line 2 of %s/htpasswd gives no one access, an MD5 hash; only bcrypt is accepted: registry htpasswd %s/htpasswd alice",
	)
	newChecked(t, withPasswords, map[string]string{"htpasswd": hashed(t, "bob") + md5}).warns(
		"auth.htpasswd.path: line 3 of %s/htpasswd gives no one access, an MD5 hash; only bcrypt is accepted: registry htpasswd %s/htpasswd alice",
		`"user":"alice","reason":"an MD5 hash; only bcrypt is accepted"|user=alice`,
	)
	const anyone = "access: {rules: [{who: [anyone], repositories: ['**'], allow: [pull]}]}\n"
	if code, text := newChecked(t, withPasswords+anyone, map[string]string{"htpasswd": md5}).check(); code != 0 || !strings.Contains(text, "warning: auth.htpasswd.path: line 2") {
		t.Errorf("rules let anyone in: %d, %s", code, text)
	}
	if code, text := newChecked(t, withPasswords, map[string]string{"htpasswd": ""}).check(); code != 0 || strings.Contains(text, "warning") {
		t.Errorf("a file that is not filled yet: %d, %s", code, text)
	}
}

func TestConfigCheck_CallersThatDoNotExist(t *testing.T) {
	users := map[string]string{"htpasswd": hashed(t, "alice")}
	rule := func(who string) string {
		return "{rules: [{who: [" + who + "], repositories: ['**'], allow: [pull]}]}\n"
	}
	newChecked(t, withPasswords+"access: "+rule("everyone"), users).refuses(
		`access.rules[0]: "everyone" is not a caller; write anyone for everybody, with or without a login, or users for everybody who logs in`,
	)
	for name, machine := range map[string]string{"a rule": rule("alice, 'robot:ci'"), "a group": "{groups: {g: ['robot:ci']}, " + rule("'group:g'")[1:]} {
		t.Run("robot in "+name, func(t *testing.T) {
			c := newChecked(t, withPasswords+"access: "+machine, users)
			c.warns("access: rules name robot:ci, but robots and workloads can log in only if auth.service is set: write service: builtin below auth", "rules name robot:ci, but robots")
			t.Setenv("REGISTRY_AUTH_SERVICE", "builtin")
			if code, text := c.check(); code != 0 || strings.Contains(text, "warning") {
				t.Errorf("with the service: %d, %s", code, text)
			}
		})
	}
	newChecked(t, "access: "+rule("carl, users, 'robot:ci', 'cert:c'"), nil).warns("access: the rules name users, carl, robot:ci, and no auth lets anybody log in", "the rules name users, carl")
	for _, anyone := range []string{"access: " + rule("anyone"), "auth: none\naccess: " + rule("'cert:c'")} {
		if code, text := newChecked(t, anyone, nil).check(); code != 0 || strings.Contains(text, "warning") {
			t.Errorf("%s: %d, %s", anyone, code, text)
		}
	}
	newChecked(t, withPasswords+"access: "+rule("alice, alcie"), users).warns("access: rules name alcie, but %s/htpasswd has no such user", "rules name alcie, but ")
	files := map[string]string{"htpasswd": users["htpasswd"], "access.yml": "rules: [{who: [Users], repositories: ['**'], allow: [pull]}]\n"}
	newChecked(t, withPasswords+"access: {file: %s/access.yml}\n", files).refuses(`access.file: rules[0]: "Users" is written in small letters: users`)
	files["access.yml"] = "rules: [{who: ['robot:ci', users], repositories: ['**'], allow: [pull]}]\n"
	newChecked(t, withPasswords+"access: {file: %s/access.yml}\n", files).warns(
		"access: rules name robot:ci, but robots and workloads can log in only if auth.service is set: write service: builtin below auth", "rules name robot:ci, but robots",
	)
}

func TestConfigCheck_ValuesMeantOtherwise(t *testing.T) {
	maintenance := func(text string) checked {
		c := newChecked(t, "", nil)
		content := "version: 0.1\nhttp: {addr: '127.0.0.1:0'}\nstorage: {inmemory: , maintenance: {" + text + "}}\n"
		if err := os.WriteFile(c.path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return c
	}
	maintenance("immutable: [{repositories: ['**'], tags: ['v*']}]").warns(
		"storage.maintenance.immutable[0].tags[0]: v* matches v, vv, …, not v1; write v.*", "v. matches v, vv",
	)
	for text, want := range map[string]string{
		"immutable: [{repositories: [/release/**], tags: [v.*]}]":                            `error: storage.maintenance.immutable[0].repositories: "/release/**" can match no repository; write release/**`,
		"retention: {rules: [{repositories: [ci/**/], action: delete, tags: [a]}]}":          `error: storage.maintenance.retention.rules[0].repositories: "ci/**/" can match no repository; write ci/**`,
		"retention: {rules: [{repositories: [a], action: delete, tags: [b], keep: ['v*']}]}": "warning: storage.maintenance.retention.rules[0].keep[0]: v* matches v, vv, …, not v1; write v.*",
		"retention: {rules: [{repositories: [a], action: delete, tags: ['pr-*']}]}":          "warning: storage.maintenance.retention.rules[0].tags[0]: pr-* matches pr-, pr--, …, not pr-1; write pr-.*",
	} {
		kind, want, _ := strings.Cut(want, ": ")
		if code, got := maintenance(text).check(); (code != 0) != (kind == "error") || !strings.Contains(got, want) {
			t.Errorf("%s: %d, %s; want %s", text, code, got, want)
		}
	}
	upstream := newChecked(t, "proxy: {upstreams: [{prefix: q, remoteurl: https://quay.io/v2/}], sync: {images: [{repository: q/a, tags: ['3*']}]}}\n", nil)
	for _, want := range []string{"proxy.sync.images[0].tags[0]: 3* matches 3, 33, …, not 31; write 3.*", "proxy.upstreams[0].remoteurl: /v2/ is added to it; write https://quay.io"} {
		if code, text := upstream.check(); code != 0 || !strings.Contains(text, "warning: "+want+"\n") {
			t.Errorf("%d, %s; want %s", code, text, want)
		}
	}
}

func TestConfigCheck_KeyOfAnotherCertificate(t *testing.T) {
	cert, key := programtest.Certificate(t)
	_, other := programtest.Certificate(t)
	tls := func(key string) string {
		return "http: {addr: '127.0.0.1:0', tls: {certificate: " + cert + ", key: " + key + "}}\n"
	}
	config := func(key string) checked {
		c := newChecked(t, "", nil)
		if err := os.WriteFile(c.path, []byte("version: 0.1\nstorage: {inmemory: }\n"+tls(key)), 0o600); err != nil {
			t.Fatal(err)
		}
		return c
	}
	config(other).refuses("http.tls: the key " + other + " is not that of the certificate " + cert)
	if code, text := config(key).check(); code != 0 {
		t.Errorf("its own key: %d, %s", code, text)
	}
}

func TestConfigCheck_AuditDirectory(t *testing.T) {
	dir := t.TempDir()
	config := func(file string) checked {
		c := newChecked(t, "", nil)
		if err := os.WriteFile(c.path, []byte("version: 0.1\nstorage: {inmemory: }\nhttp: {addr: '127.0.0.1:0'}\naudit: {file: "+file+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return c
	}
	config(dir + "/none/audit.log").refuses("audit.file: " + dir + "/none does not exist")
	if code, text := config(dir + "/audit.log").check(); code != 0 {
		t.Errorf("a file to be made: %d, %s", code, text)
	}
}

func TestConfigCheck_FIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newChecked(t, "", nil)
	if err := os.WriteFile(c.path, []byte("version: 0.1\nstorage: {inmemory: }\nhttp: {addr: '127.0.0.1:0'}\nauth: {htpasswd: {realm: r, path: "+path+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.refuses("auth.htpasswd.path: " + path + " is a FIFO")
}
