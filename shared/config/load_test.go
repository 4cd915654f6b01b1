package config

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

type sample struct {
	Version string  `key:"version"`
	Log     log     `key:"log"`
	Storage storage `key:"storage"`
	Auth    *auth   `key:"auth"`
	HTTP    web     `key:"http"`
	Checks  []check `key:"checks" alias:"checkers"`
	Proxy   Refused `key:"proxy" why:"there is none"`
	Bugs    Dead    `key:"bugs" why:"the reporter is gone"`
}

type log struct {
	Level  string         `key:"level" choices:"debug,info" doc:"How much to say."`
	Fields map[string]any `key:"fields"`
}

type storage struct {
	Filesystem *filesystem `key:"filesystem"`
	InMemory   *struct{}   `key:"inmemory"`
	S3         Refused     `key:"s3" alias:"s3aws" why:"there is none"`
	Swift      Refused     `key:"swift" why:"it was removed"`
	Delete     struct {
		Enabled bool `key:"enabled"`
	} `key:"delete"`
}

type filesystem struct {
	Root    string `key:"rootdirectory"`
	Threads int    `key:"max_threads"`
}

type auth struct {
	HTPasswd *htpasswd `key:"htpasswd"`
	None     *struct{} `key:"none"`
}

type htpasswd struct {
	Realm string        `key:"realm"`
	TTL   time.Duration `key:"ttl"`
}

type web struct {
	Addr    string              `key:"addr"`
	Secret  Secret              `key:"secret" doc:"Signs."`
	Drain   time.Duration       `key:"drain" min:"0"`
	Body    Size                `key:"body" min:"1"`
	Headers map[string][]string `key:"headers"`
	Suites  []string            `key:"suites"`
}

type check struct {
	URI    string        `key:"uri"`
	Every  time.Duration `key:"every"`
	Status int           `key:"status"`
}

func (s *sample) Validate(p *Problems) {
	if s.Storage.Filesystem != nil && s.Storage.InMemory != nil {
		p.Addf("storage", "has two drivers")
	}
	if s.Auth != nil && s.Auth.HTPasswd == nil && s.Auth.None == nil {
		p.Addf("auth", "names no kind")
	}
	if s.HTTP.Addr == "bad" {
		p.Addf("http.addr", "is bad")
	}
	if s.HTTP.Addr == "signs" && s.HTTP.Secret.Empty() {
		p.Addf("http.secret", "is missing")
	}
}

func defaults() sample {
	var s sample
	s.Log = log{Level: "info", Fields: map[string]any{"service": "registry"}}
	s.Storage.Filesystem = &filesystem{Root: "/var/lib/registry", Threads: 100}
	s.Storage.InMemory = &struct{}{}
	s.Auth = &auth{HTPasswd: &htpasswd{TTL: time.Minute}, None: &struct{}{}}
	s.HTTP = web{Addr: ":5000", Drain: 30 * time.Second, Body: 4 << 20, Suites: []string{"a", "b"}}
	s.Checks = []check{{Every: 10 * time.Second, Status: 200}}
	return s
}

func load(t *testing.T, file string, environ ...string) (sample, *Report, error) {
	t.Helper()
	s := defaults()
	report, err := Load(&s, Options{
		Prefix: "REGISTRY", File: "c.yml", Source: []byte(file), Environ: environ,
		Ignore: []string{"REGISTRY_CONFIGURATION_PATH", "REGISTRY_VERSION"}, Aliases: map[string]string{"WEB_SECRET": "http.secret"},
	})
	return s, report, err
}

// TestLoad holds what a file and variables come to, each trap of the idiom in
// a row.
func TestLoad(t *testing.T) {
	tests := []struct {
		name    string
		file    string
		environ []string
		got     func(sample) any
		want    any
	}{
		{"default", "", nil, func(s sample) any { return s.HTTP.Addr }, ":5000"},
		{"file", "http: {addr: h:1}", nil, func(s sample) any { return s.HTTP.Addr }, "h:1"},
		{"leaf without value keeps the default", "http: {addr: }", nil, func(s sample) any { return s.HTTP.Addr }, ":5000"},
		{"variable over file", "http: {addr: h:1}", []string{"REGISTRY_HTTP_ADDR=:2"}, func(s sample) any { return s.HTTP.Addr }, ":2"},
		{"variable of a key the file lacks", "log: {level: debug}", []string{"REGISTRY_HTTP_ADDR=:2"}, func(s sample) any { return s.HTTP.Addr }, ":2"},
		{"empty variable is unset", "http: {addr: h:1}", []string{"REGISTRY_HTTP_ADDR="}, func(s sample) any { return s.HTTP.Addr }, "h:1"},
		{"key with underscore", "", []string{"REGISTRY_STORAGE_FILESYSTEM_MAX_THREADS=7"}, func(s sample) any { return s.Storage.Filesystem.Threads }, 7},

		{"optional section absent", "http: {}", nil, func(s sample) any { return s.Auth == nil && s.Storage.Filesystem == nil && s.Storage.InMemory == nil }, true},
		{"optional section present but empty", "auth:\n  htpasswd:\n", nil, func(s sample) any { return *s.Auth.HTPasswd }, htpasswd{TTL: time.Minute}},
		{"optional section present as {}", "storage: {inmemory: {}}", nil, func(s sample) any { return s.Storage.InMemory != nil && s.Storage.Filesystem == nil }, true},
		{"optional section keeps its defaults", "storage: {filesystem: {max_threads: 3}}", nil, func(s sample) any { return *s.Storage.Filesystem }, filesystem{"/var/lib/registry", 3}},
		{"optional section by variable", "", []string{"REGISTRY_AUTH_HTPASSWD_REALM=r"}, func(s sample) any { return *s.Auth.HTPasswd }, htpasswd{Realm: "r", TTL: time.Minute}},
		{"optional section as YAML in a variable", "", []string{"REGISTRY_AUTH_HTPASSWD={realm: r}"}, func(s sample) any { return *s.Auth.HTPasswd }, htpasswd{Realm: "r", TTL: time.Minute}},

		{"word for a section in the file", "storage: inmemory", nil, func(s sample) any { return s.Storage.InMemory != nil }, true},
		{"word for a section in a variable", "storage: {filesystem: {rootdirectory: /x}}", []string{"REGISTRY_STORAGE=inmemory"}, func(s sample) any { return s.Storage.InMemory != nil && s.Storage.Filesystem == nil }, true},
		{
			"word refined by longer names", "storage: {inmemory: }",
			[]string{"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=/y", "REGISTRY_STORAGE=filesystem", "REGISTRY_STORAGE_DELETE_ENABLED=true"},
			func(s sample) any {
				return []any{*s.Storage.Filesystem, s.Storage.InMemory == nil, s.Storage.Delete.Enabled}
			},
			[]any{filesystem{"/y", 100}, true, true},
		},
		{"section replaced by YAML in a variable", "http: {addr: h:1, drain: 5s}", []string{"REGISTRY_HTTP={addr: h:2}"}, func(s sample) any { return []any{s.HTTP.Addr, s.HTTP.Drain} }, []any{"h:2", 30 * time.Second}},

		{"case and dots of map keys", "log: {fields: {App.Kubernetes.io/Name: X}}", nil, func(s sample) any { return s.Log.Fields }, map[string]any{"App.Kubernetes.io/Name": "X"}},
		{"map in the file replaces the default", "log: {fields: {a: 1}}", nil, func(s sample) any { return s.Log.Fields }, map[string]any{"a": 1}},
		{"map without value keeps the default", "log: {fields: }", nil, func(s sample) any { return s.Log.Fields }, map[string]any{"service": "registry"}},
		{"map entry by variable, written in capitals", "", []string{"REGISTRY_LOG_FIELDS_MY_KEY=5"}, func(s sample) any { return s.Log.Fields }, map[string]any{"my_key": 5}},
		{"map entry by variable, in its own case", "", []string{"REGISTRY_HTTP_HEADERS_X-Foo=[bar]"}, func(s sample) any { return s.HTTP.Headers }, map[string][]string{"X-Foo": {"bar"}}},
		{"map entry by variable, spelt as in the file", "http: {headers: {X-Foo: [a], Y: [b]}}", []string{"REGISTRY_HTTP_HEADERS_X-FOO=[c]"}, func(s sample) any { return s.HTTP.Headers }, map[string][]string{"X-Foo": {"c"}, "Y": {"b"}}},
		{"whole map by variable", "http: {headers: {Y: [b]}}", []string{"REGISTRY_HTTP_HEADERS={X-A: [b]}"}, func(s sample) any { return s.HTTP.Headers }, map[string][]string{"X-A": {"b"}}},
		{"nested free values", "log: {fields: {a: {B.c: [1, two, null]}}}", nil, func(s sample) any { return s.Log.Fields }, map[string]any{"a": map[string]any{"B.c": []any{1, "two", nil}}}},

		{"list replaces a longer default", "http: {suites: [c]}", nil, func(s sample) any { return s.HTTP.Suites }, []string{"c"}},
		{"list absent keeps the default", "", nil, func(s sample) any { return s.HTTP.Suites }, []string{"a", "b"}},
		{"list elements get the pattern", "checks: [{uri: a}, {uri: b, status: 204}]", nil, func(s sample) any { return s.Checks }, []check{{"a", 10 * time.Second, 200}, {"b", 10 * time.Second, 204}}},
		{"pattern is no element", "", nil, func(s sample) any { return len(s.Checks) }, 0},
		{"list by index", "checks: [{uri: a}]", []string{"REGISTRY_CHECKS_0_STATUS=1", "REGISTRY_CHECKERS_1_URI=b"}, func(s sample) any { return s.Checks }, []check{{"a", 10 * time.Second, 1}, {"b", 10 * time.Second, 200}}},
		{"items in the order of their numbers", "", []string{
			"REGISTRY_HTTP_SUITES_0=0", "REGISTRY_HTTP_SUITES_1=1", "REGISTRY_HTTP_SUITES_10=10", "REGISTRY_HTTP_SUITES_2=2", "REGISTRY_HTTP_SUITES_3=3",
			"REGISTRY_HTTP_SUITES_4=4", "REGISTRY_HTTP_SUITES_5=5", "REGISTRY_HTTP_SUITES_6=6", "REGISTRY_HTTP_SUITES_7=7", "REGISTRY_HTTP_SUITES_8=8", "REGISTRY_HTTP_SUITES_9=9",
		}, func(s sample) any { return strings.Join(s.HTTP.Suites, "") }, "012345678910"},
		{"whole list by variable", "", []string{"REGISTRY_HTTP_SUITES=[x, y]"}, func(s sample) any { return s.HTTP.Suites }, []string{"x", "y"}},

		{"quoted boolean", `storage: {delete: {enabled: "true"}}`, nil, func(s sample) any { return s.Storage.Delete.Enabled }, true},
		{"YAML 1.1 boolean", "storage: {delete: {enabled: yes}}", nil, func(s sample) any { return s.Storage.Delete.Enabled }, true},
		{"number for a string", "http: {addr: 0123}", nil, func(s sample) any { return s.HTTP.Addr }, "0123"},
		{"quoted number", `storage: {filesystem: {max_threads: "8"}}`, nil, func(s sample) any { return s.Storage.Filesystem.Threads }, 8},
		{"duration", "http: {drain: 168h}", nil, func(s sample) any { return s.HTTP.Drain }, 168 * time.Hour},
		{"duration zero", "http: {drain: 0}", nil, func(s sample) any { return s.HTTP.Drain }, time.Duration(0)},
		{"size", "http: {body: 1MiB}", nil, func(s sample) any { return s.HTTP.Body }, Size(1 << 20)},
		{"choice in any case", "log: {level: DEBUG}", nil, func(s sample) any { return s.Log.Level }, "debug"},
		{"text in a variable is not parsed", "", []string{"REGISTRY_HTTP_SECRET=p: {#1"}, func(s sample) any { return s.HTTP.Secret.Reveal() }, "p: {#1"},
		{"quoted text in a variable is", "", []string{"REGISTRY_HTTP_ADDR=':1 # x'"}, func(s sample) any { return s.HTTP.Addr }, ":1 # x"},
		{"comment in a variable for a string", "", []string{"REGISTRY_HTTP_SECRET=a #b"}, func(s sample) any { return s.HTTP.Secret.Reveal() }, "a #b"},

		{"anchors", "checks: [&a {uri: a, status: 1}, *a]", []string{"REGISTRY_CHECKS_1_STATUS=2"}, func(s sample) any { return s.Checks }, []check{{"a", 10 * time.Second, 1}, {"a", 10 * time.Second, 2}}},
		{"alias variable", "http: {secret: f}", []string{"WEB_SECRET=a"}, func(s sample) any { return s.HTTP.Secret.Reveal() }, "a"},
		{"own variable over alias variable", "", []string{"WEB_SECRET=a", "REGISTRY_HTTP_SECRET=b"}, func(s sample) any { return s.HTTP.Secret.Reveal() }, "b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _, err := load(t, tt.file, tt.environ...)
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.got(s); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %#v, want %#v", got, tt.want)
			}
		})
	}
}

// TestLoadRefuses holds every sentence that stops a start.
func TestLoadRefuses(t *testing.T) {
	tests := []struct {
		name    string
		file    string
		environ []string
		want    []string
	}{
		{"unknown key", "http:\n  adr: h:1", nil, []string{"http.adr: is not a setting; did you mean http.addr? (c.yml:2)"}},
		{"unknown key unlike any", "foobar: x", nil, []string{"foobar: is not a setting"}},
		{"keys have a case", "HTTP: {addr: h:1}", nil, []string{"HTTP: is not a setting; did you mean http? (c.yml:1)"}},
		{"unknown key in a list", "checks: [{uri: a}, {url: b}]", nil, []string{"checks[1].url: is not a setting; did you mean checks[].uri? (c.yml:1)"}},
		{"unknown variable in a section", "", []string{"REGISTRY_HTTP_NOTHING=1"}, []string{"REGISTRY_HTTP_NOTHING: is not a setting"}},
		{"unknown variable in a driver", "", []string{"REGISTRY_STORAGE_FILESYSTEM_ROOT=1"}, []string{"REGISTRY_STORAGE_FILESYSTEM_ROOT: is not a setting; did you mean REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY?"}},
		{"variable into a leaf", "", []string{"REGISTRY_HTTP_ADDR_X=1"}, []string{"REGISTRY_HTTP_ADDR_X: is not a setting"}},
		{"misspelt section in a variable", "", []string{"REGISTRY_AUHT_HTPASSWD_REALM=r"}, []string{"REGISTRY_AUHT_HTPASSWD_REALM: is not a setting; did you mean REGISTRY_AUTH_HTPASSWD_REALM?"}},
		{"misspelt word section in a variable", "", []string{"REGISTRY_AUHT=none"}, []string{"REGISTRY_AUHT: is not a setting; did you mean REGISTRY_AUTH?"}},
		{"key given twice", "http: {addr: h:1}\nhttp: {drain: 1s}", nil, []string{"c.yml: not YAML: line 2: mapping key \"http\" already defined at line 1"}},
		{"key and its alias", "storage:\n  s3: {}\n  s3aws: {}", nil, []string{"storage.s3aws: is another name of s3, which is given too (c.yml:3)"}},
		{"bare duration", "http: {drain: 5}", nil, []string{"http.drain: \"5\" is not a duration such as 10s, 5m, 12h or 7d (c.yml:1)"}},
		{"bare duration in a variable", "", []string{"REGISTRY_HTTP_DRAIN=5"}, []string{"http.drain: \"5\" is not a duration such as 10s, 5m, 12h or 7d (REGISTRY_HTTP_DRAIN)"}},
		{"several unreadable values", "http: {drain: 5, body: x}\nlog: {level: z}", nil, []string{`http.drain: "5"`, `http.body: "x"`, `log.level: "z"`}},
		{"no duration", "http: {drain: soon}", nil, []string{`http.drain: "soon" is not a duration such as 10s`}},
		{"weeks", "http: {drain: 2w}", nil, []string{`http.drain: "2w" is not a duration such as 10s, 5m, 12h or 7d`}},
		{"no boolean", "storage: {delete: {enabled: maybe}}", nil, []string{`storage.delete.enabled: "maybe" is neither true nor false`}},
		{"no size", "http: {body: -1}", nil, []string{`http.body: "-1" is not a size such as 4MiB`}},
		{"too low", "http: {drain: -1s, body: 0}", nil, []string{"http.drain: must not be negative (c.yml:1)", "http.body: must be above 0 (c.yml:1)"}},
		{"no choice", "log: {level: trace}", nil, []string{`log.level: "trace" is not one of debug, info (c.yml:1)`}},
		{"section as value", "http: 5", nil, []string{"http: is a section, not one value or a list (c.yml:1)"}},
		{"section as list", "http: [5]", nil, []string{"http: is a section, not one value or a list"}},
		{"value as section", "http: {addr: {a: b}}", nil, []string{"http.addr: is one value, not a list or a section"}},
		{"list as value", "http: {suites: a}", nil, []string{"http.suites: is a list, such as [a, b]"}},
		{"list in a map as value", "http: {headers: {X: a}}", nil, []string{"http.headers.X: is a list, such as [a, b]"}},
		{"null item", "http: {suites: [~]}", nil, []string{"http.suites[0]: is empty"}},
		{"unknown word", "storage: inmemry", nil, []string{"storage: is a section, not one value or a list; did you mean storage.inmemory? (c.yml:1)"}},
		{"gap in a list", "", []string{"REGISTRY_CHECKS_1_URI=a"}, []string{"checks[0]: is empty (REGISTRY_CHECKS_1_URI)"}},
		{"long gap in a list", "", []string{"REGISTRY_CHECKS_9_URI=a"}, []string{"checks[0]: is empty (REGISTRY_CHECKS_9_URI)"}},
		{"index out of bounds", "", []string{"REGISTRY_CHECKS_1000000000_URI=a"}, []string{"REGISTRY_CHECKS_1000000000_URI: is not a setting"}},
		{"merge keys", "checks: [&a {uri: a}, {<<: *a}]", nil, []string{"checks[1].<<: is not a setting"}},
		{"no number", "storage: {filesystem: {max_threads: 1.5}}", nil, []string{`storage.filesystem.max_threads: "1.5" is not a whole number`}},
		{"variable is not YAML", "", []string{"REGISTRY_HTTP_SUITES=[a"}, []string{"http.suites: not YAML:", "(REGISTRY_HTTP_SUITES)"}},
		{"part to come", "storage: {s3: {bucket: b}}", nil, []string{"storage.s3: is not supported: there is none (c.yml:1)"}},
		{"part to come by variable", "", []string{"REGISTRY_STORAGE_S3_BUCKET=b"}, []string{"storage.s3: is not supported: there is none (REGISTRY_STORAGE_S3_BUCKET)"}},
		{"part to come with content", "proxy: {remoteurl: x}", nil, []string{"proxy: is not supported: there is none (c.yml:1)"}},
		{"unsupported", "storage: {swift: {a: b}}", nil, []string{"storage.swift: is not supported: it was removed (c.yml:1)"}},
		{"optional section emptied", "auth:\n", nil, []string{"auth: names no kind (c.yml:1)"}},
		{"free values do not hide where the file is", "log: {fields: {a: {b: c}}}\nhttp: {addr: bad}", []string{"REGISTRY_LOG_FIELDS_X={y: {z: 1}}"}, []string{"http.addr: is bad (c.yml:2)"}},
		{"a mistake under a variable", "http: 5\nstorage: s4", []string{"REGISTRY_HTTP_ADDR=h:1", "REGISTRY_STORAGE_DELETE_ENABLED=true"}, []string{"http: is a section, not one value or a list (c.yml:1)", "storage: is a section, not one value or a list"}},
		{"a mistake beside another", "http: {adr: x, addr: bad}", nil, []string{"http.adr: is not", "http.addr: is bad"}},
		{"variable not in UTF-8", "", []string{"REGISTRY_HTTP_ADDR=\xff"}, []string{"http.addr: is not valid UTF-8 (REGISTRY_HTTP_ADDR)"}},
		{"a long unknown key", strings.Repeat("a", 1000) + ": b", nil, []string{"is not a setting (c.yml:1)"}},
		{"validation tells the origin", "", []string{"REGISTRY_HTTP_ADDR=bad"}, []string{"http.addr: is bad (REGISTRY_HTTP_ADDR)"}},
		{"all at once", "htp: {}\nhttp: {addr: bad}\nlog: {level: x}", nil, []string{"htp: is not", "http.addr: is bad", `log.level: "x"`}},
		{"not YAML", "a: [", nil, []string{"c.yml: not YAML: line 1: "}},
		{"not a section", "- a", nil, []string{"is a section, not one value or a list (c.yml:1)"}},
		{"two documents", "http: {}\n---\nhttp: {}", nil, []string{"c.yml: more than one YAML document"}},
		{"endless alias", "a: &a [*a]", nil, []string{"anchor 'a' value contains itself"}},
		{"list as key", "[a]: b", nil, []string{"invalid map key"}},
		{"both twins", "http: {secret: a, secret_file: b}", nil, []string{"http.secret_file: is given beside http.secret; keep one (c.yml:1)"}},
		{"missing secret", "http: {addr: signs}", nil, []string{"http.secret: is missing"}},
		{"missing secret file", "http: {addr: signs, secret_file: /nothing}", nil, []string{"http.secret_file: cannot be read"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := load(t, tt.file, tt.environ...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
			if got := len(strings.Split(err.Error(), "\n")); got > len(tt.want) && tt.name != "variable is not YAML" {
				t.Errorf("%d problems, want %d: %v", got, len(tt.want), err)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		name    string
		file    string
		environ []string
		want    string
	}{
		{"unknown variable outside any section", "", []string{"REGISTRY_USER=u"}, "REGISTRY_USER is not a setting and does nothing"},
		{"variable like a section's name", "", []string{"REGISTRY_LOGS=x"}, "REGISTRY_LOGS is not"},
		{"dead key", "bugs: {apikey: x}", nil, "bugs does nothing: the reporter is gone (c.yml:1)"},
		{"dead key by variable", "", []string{"REGISTRY_BUGS_APIKEY=x"}, "bugs does nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, report, err := load(t, tt.file, tt.environ...)
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], tt.want) {
				t.Errorf("got %q, want %q", report.Warnings, tt.want)
			}
		})
	}
}

// TestInjectedVariables: none of them may change, stop or warn of anything.
func TestInjectedVariables(t *testing.T) {
	_, report, err := load(t, "",
		"REGISTRY_SERVICE_HOST=10.0.0.1", "REGISTRY_SERVICE_PORT=5000", "REGISTRY_SERVICE_PORT_HTTP=5000",
		"REGISTRY_PORT=tcp://10.0.0.1:5000", "REGISTRY_PORT_5000_TCP=tcp://10.0.0.1:5000",
		"REGISTRY_PORT_5000_TCP_PROTO=tcp", "REGISTRY_PORT_53_UDP_ADDR=10.0.0.1",
		"REGISTRY_HTTP_SERVICE_HOST=10.0.0.1", "REGISTRY_HTTP_PORT=tcp://10.0.0.1:80", "REGISTRY_HTTP_PORT_80_TCP_ADDR=10.0.0.1",
		"REGISTRY_STORAGE_SERVICE_PORT=1", "REGISTRY_AUTH_FILE=/auth.json", "REGISTRY_CONFIGURATION_PATH=/c.yml", "REGISTRY_HTTP_NOTHING=", "REGISTRY_=x")
	if err != nil || len(report.Warnings) != 0 {
		t.Errorf("got %v, %q", err, report.Warnings)
	}
	if _, _, err := load(t, "", "REGISTRY_HTTP_PORT=8080"); err == nil {
		t.Error("a port that is no address was passed over")
	}
}

func TestOrigins(t *testing.T) {
	_, report, err := load(t, "http:\n  addr: h:1\n  headers:\n    X: [a]\n", "REGISTRY_CHECKS_0_URI=u", "REGISTRY_STORAGE=inmemory")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"http.addr": "c.yml:2", "http.headers.X[0]": "c.yml:4", "checks[0].uri": "REGISTRY_CHECKS_0_URI",
		"storage.inmemory": "REGISTRY_STORAGE", "http.drain": "default",
	} {
		if got := cmp.Or(report.Origins[path], "default"); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, environ := range [][]string{
		{"REGISTRY_HTTP_SECRET_FILE=" + path},
		{"REGISTRY_HTTP_SECRET_FILE=" + path, "REGISTRY_HTTP_ADDR=:1"},
	} {
		s, report, err := load(t, "http: {secret: other}", environ...)
		if err != nil || s.HTTP.Secret.Reveal() != "hunter2" || report.Origins["http.secret"] != path {
			t.Errorf("got %v, %s, %v", s.HTTP.Secret.Reveal(), report.Origins["http.secret"], err)
		}
	}
	if s, _, err := load(t, "", "REGISTRY_HTTP_SECRET=env", "REGISTRY_HTTP_SECRET_FILE="+path); err != nil || s.HTTP.Secret.Reveal() != "hunter2" {
		t.Errorf("of two variables: got %v, %v", s.HTTP.Secret.Reveal(), err)
	}
	s, _, err := load(t, "http: {secret_file: "+path+"}", "REGISTRY_HTTP_SECRET=env")
	if err != nil || s.HTTP.Secret.Reveal() != "env" {
		t.Errorf("got %v, %v", s.HTTP.Secret.Reveal(), err)
	}
}

func TestMissingFile(t *testing.T) {
	s := defaults()
	report, err := Load(&s, Options{Prefix: "REGISTRY", File: filepath.Join(t.TempDir(), "none.yml")})
	if !errors.Is(err, os.ErrNotExist) || report == nil {
		t.Errorf("got %v, %v", report, err)
	}
}

func TestExpand(t *testing.T) {
	environ := []string{"TOKEN=s: {x", "PORT=8080", "EMPTY="}
	tests := []struct{ in, want, problem string }{
		{"${TOKEN}", "s: {x", ""},
		{"a-${PORT}-${PORT}", "a-8080-8080", ""},
		{"${NONE:-d:e}", "d:e", ""},
		{"${EMPTY:-d}", "d", ""},
		{"${NONE:-}", "", ""},
		{"$$ $${PORT} $PORT", "$ ${PORT} $PORT", ""},
		{"${NONE}", "", "the variable NONE is not set"},
		{"${EMPTY}", "", "the variable EMPTY is not set"},
		{"${PORT", "", "does not name a variable"},
		{"${1A}", "", "does not name a variable"},
	}
	for _, tt := range tests {
		s := defaults()
		source := []byte("http: {addr: '" + tt.in + "'}")
		_, err := Load(&s, Options{Prefix: "X", File: "c.yml", Source: source, Environ: environ, Expand: true})
		switch {
		case tt.problem == "" && (err != nil || s.HTTP.Addr != tt.want):
			t.Errorf("%s: got %q, %v, want %q", tt.in, s.HTTP.Addr, err, tt.want)
		case tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)):
			t.Errorf("%s: got %v, want %q", tt.in, err, tt.problem)
		}
	}
}

// TestExpandTyped: what a variable holds takes the type of the setting, never
// a structure of its own.
func TestExpandTyped(t *testing.T) {
	s := defaults()
	source := []byte("http:\n  drain: ${D:-7s}\n  suites: ['${L}']\n  secret_file: ${F}\n")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(&s, Options{Prefix: "X", File: "c.yml", Source: source, Environ: []string{"F=" + secret, "L=[a, b]="}, Expand: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.HTTP.Drain != 7*time.Second || s.HTTP.Suites[0] != "[a, b]=" || s.HTTP.Secret.Reveal() != "hunter2" {
		t.Errorf("got %v %q %q", s.HTTP.Drain, s.HTTP.Suites, s.HTTP.Secret.Reveal())
	}
}

func TestNotExpandedUnlessAsked(t *testing.T) {
	s, _, err := load(t, "http: {addr: '${X}'}")
	if err != nil || s.HTTP.Addr != "${X}" {
		t.Errorf("got %q, %v", s.HTTP.Addr, err)
	}
}

// FuzzLoad: whatever a file and a variable hold, Load ends with a value or an
// error.
func FuzzLoad(f *testing.F) {
	f.Add("http: {addr: '${A:-b}', secret: $$}", "A", "x")
	f.Add("storage: &a {s3: {b: *a}}", "REGISTRY_CHECKS_0_URI", "{")
	f.Add("checks: [{<<: [{uri: a}]}]", "REGISTRY_HTTP_HEADERS_A_0", "[b]")
	f.Add("auth: none", "REGISTRY_AUTH", "htpasswd")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		s := defaults()
		_, err := Load(&s, Options{Prefix: "REGISTRY", File: "c.yml", Source: []byte(text), Environ: []string{name + "=" + value}, Expand: true})
		if err != nil && err.Error() == "" {
			t.Error("an error without a sentence")
		}
	})
}
