package main

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const applied = `users:
  - {name: anna, matrix-id: "@anna:example.org", password-file: secrets/anna}
  - {name: bob, matrix-id: "@bob:example.org", password-file: secrets/bob, admin: true}
applications:
  - name: backup
    owner: anna
    room: "#ops:example.org"
    priority: high
    digest: 10m0s
    quiet-hours: 22:00-07:00
    time-zone: Europe/Berlin
    heartbeat: 1d
    rate-limit: 30
    group-threads: true
    mention: none
    template-title: |
      {{.title}}
    token-file: secrets/backup
    hook-secret-file: secrets/hook
  - {name: web, token-file: secrets/web}
`

// TestApply: a file makes users and applications, a second run has nothing to do, and a changed one changes only that.
func TestApply(t *testing.T) {
	d := newDesk(t)
	dir := filepath.Dir(d.file)
	file := filepath.Join(dir, "applications.yml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "secrets", name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	apply := "apply " + file + " --config %"
	stop := d.serve()
	defer stop()
	d.does(0, "app create other --config %")
	write(applied)
	d.does(2, apply+" --yes", ":2: ", filepath.Join("secrets", "anna")+" is missing or empty", ":5: ", filepath.Join("secrets", "hook")+" is missing or empty")
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"anna", "bob", "hook"} {
		if err := os.WriteFile(filepath.Join(dir, "secrets", name), []byte(rand.Text()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.does(0, apply+" --dry-run", "create user anna", "    password: from "+filepath.Join(dir, "secrets", "anna"), "create application backup", "    digest: 10m0s", "    owner: anna",
		"    token: a new one goes to "+filepath.Join(dir, "secrets", "backup"), "4 changes would be made; nothing was changed")
	d.does(2, apply, "Nobody can be asked here: give --yes")
	d.does(0, apply+" --yes", "4 changes made")
	for _, name := range []string{"anna", "bob", "backup", "web", "hook"} {
		if info, err := os.Stat(filepath.Join(dir, "secrets", name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if secret := read(name); len(secret) < 15 || strings.Contains(d.out+d.errout, secret) {
			t.Errorf("the secret %s is %q, or it is shown", name, secret)
		}
	}
	d.does(0, apply+" --yes", "nothing to do")
	d.does(0, "app show backup --config %", "owner: anna", "room: #ops:example.org", "priority: 1", "heartbeat: 24h", "template-title: {{.title}}", "has-hook-secret: true", "mention: none")
	t.Setenv("RELAY_URL", "http://"+d.addr)
	t.Setenv("RELAY_TOKEN", read("web"))
	d.does(0, "send hello", "message 1 ")

	token := read("web")
	if err := os.Remove(filepath.Join(dir, "secrets", "web")); err != nil {
		t.Fatal(err)
	}
	write(strings.NewReplacer("digest: 10m0s", "digest: 600s", "rate-limit: 30", "rate-limit: 0", "priority: high", "priority: 1", "admin: true", "admin: false", "owner: anna", "owner: Bob").Replace(applied))
	d.does(0, apply+" --yes --json")
	var plan applyPlan
	if err := json.Unmarshal([]byte(d.out), &plan); err != nil || !plan.Applied {
		t.Fatalf("%v: %s", err, d.out)
	}
	var got []string
	for _, c := range plan.Changes {
		got = append(got, c.Action+" "+c.Noun+" "+c.Name+" "+strings.Join(c.Fields, ", "))
	}
	want := []string{
		"change user bob admin: true → false", "change application backup rate-limit: 30 → 0, owner: Bob",
		"change application web token: a new one goes to " + filepath.Join(dir, "secrets", "web"),
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q\nwant %q", got, want)
	}
	if read("web") == token {
		t.Error("the token that was lost is not a new one")
	}
	d.does(0, apply+" --yes", "nothing to do")
	d.does(0, "user list --config %", "admin", "anna", "bob")
	d.does(0, "app show other --config %")
}

// TestApply_Wrong: all errors have their lines, and nothing is done.
func TestApply_Wrong(t *testing.T) {
	d := newDesk(t)
	file := filepath.Join(filepath.Dir(d.file), "wrong.yml")
	for text, want := range map[string][]string{
		"":                                      {"wrong.yml: the file is empty"},
		"users: [":                              {"wrong.yml: line 1"},
		"- a":                                   {"line 1: cannot unmarshal !!seq"},
		"rooms: []":                             {`wrong.yml: there is no list "rooms"`},
		"users: 1":                              {"line 1: cannot unmarshal !!int `1`"},
		"users: [~, {}]":                        {":1: the user has no name"},
		"users:\n  - {name: anna}":              {`:2: user "anna" does not exist yet: name its password-file`},
		"users:\n  - {admin: maybe}":            {`:2: admin: "maybe" is not of the type bool`, ":2: the user has no name"},
		"users:\n  - name: anna\n    name: bob": {`line 3: mapping key "name" already defined at line 2`},
		"applications:\n  - name: a\n    digest: 10\n    digset: 1m\n    rate-limit: many\n    quiet-hours: 7\n    image: b\n    room: [a]\n  - name: a\n": {
			":3: digest: Field 'digest' is ", ":4: digset is empty, or no key of applications", `:5: rate-limit: "many" is not of the type int`, ":6: ", ":7: image is empty, or no key of applications", ":8: room must be a text", `:9: application "a" is already in line 2`,
		},
		"applications:\n  - {name: a, owner: nobody}": {`:2: application "a": there is no user "nobody"`},
		"applications: [{name: a, password-file: x}]": {":1: password-file is empty, or no key of applications"},
		"users: [{name: a, hook-secret-file: x}]":     {":1: hook-secret-file is empty, or no key of users"},
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d.does(2, "apply "+file+" --yes --config %", want...)
	}
	d.does(0, "app list --json --config %")
	if strings.TrimSpace(d.out) != "[]" {
		t.Errorf("applications: %s", d.out)
	}
}
