package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestShow(t *testing.T) {
	s, report, err := load(t, "version: 0.1\nhttp:\n  secret: hunter2\n  headers: {X-A: [b, 'yes']}\nchecks: [{uri: u}]\nlog: {fields: {a.b: {C: 1}}}\n",
		"REGISTRY_STORAGE=filesystem", "REGISTRY_HTTP_DRAIN=1h")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report.Show(&out, &s); err != nil {
		t.Fatal(err)
	}
	want := `version: "0.1" # c.yml:1
log:
  level: info # default
  fields:
    a.b: {C: 1} # c.yml:6
storage:
  filesystem:
    rootdirectory: /var/lib/registry # default
    max_threads: 100 # default
  delete:
    enabled: false # default
http:
  addr: :5000 # default
  secret: '***' # c.yml:3
  drain: 1h # REGISTRY_HTTP_DRAIN
  body: 4MiB # default
  headers:
    X-A:
      - b # c.yml:4
      - "yes" # c.yml:4
  suites:
    - a # default
    - b # default
checks:
  - uri: u # c.yml:5
    every: 10s # default
    status: 200 # default
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again, _, err := load(t, out.String())
	again.HTTP.Secret = s.HTTP.Secret
	if err != nil || !reflect.DeepEqual(again, s) {
		t.Errorf("what is shown loads as\n%+v, %v, not\n%+v", again, err, s)
	}
}

func TestWithoutCredentials(t *testing.T) {
	for in, want := range map[string]string{
		"http://ada:pw@h:1/a?token=t&b=": "http://ada:xxxxx@h:1/a?***",
		"http://h/?t0ken":                "http://h/?***",
		"http://ada@h/a":                 "http://ada@h/a",
		"host=db password=p":             "host=db password=p", // no URL: such a setting should be a Secret
		":5000":                          ":5000",
		"https://h/%zz":                  "https://h/%zz",
	} {
		if got := WithoutCredentials(in); got != want {
			t.Errorf("%s is shown as %s, not %s", in, got, want)
		}
	}
}

func TestSecretIsNotRepeated(t *testing.T) {
	type listed struct {
		Keys []Secret `key:"keys"`
		URLs []string `key:"urls"`
	}
	l := listed{}
	_, err := Load(&l, Options{Prefix: "X", File: "c.yml", Source: []byte("keys: hunter2\nurls: 'http://h/?t=hunter2'\n")})
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "keys: is a list, such as [a, b]") {
		t.Error(err)
	}
}

func TestWalk(t *testing.T) {
	s := defaults()
	got := map[string]Leaf{}
	for _, l := range Walk(&s) {
		l.field = nil
		got[l.Path] = l
	}
	want := []Leaf{
		{Path: "version", Type: "string"},
		{Path: "log.level", Type: "string", Default: "info", Choices: []string{"debug", "info"}},
		{Path: "storage.filesystem.max_threads", Type: "integer", Default: "100"},
		{Path: "storage.inmemory", Type: "section"},
		{Path: "storage.s3"},
		{Path: "http.secret", Type: "secret"},
		{Path: "http.drain", Type: "duration", Default: "30s"},
		{Path: "http.body", Type: "size", Default: "4MiB"},
		{Path: "http.headers", Type: "map of list of string"},
		{Path: "http.suites", Type: "list of string", Default: "a, b"},
		{Path: "checks[].every", Type: "duration", Default: "10s"},
		{Path: "auth.htpasswd.ttl", Type: "duration", Default: "1m"},
		{Path: "bugs"},
	}
	for _, w := range want {
		if !reflect.DeepEqual(got[w.Path], w) {
			t.Errorf("got %+v, want %+v", got[w.Path], w)
		}
	}
}
