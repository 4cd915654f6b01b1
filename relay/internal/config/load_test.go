package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/shared/config"
)

// minimal is the least that a configuration must say.
var minimal = []string{
	"RELAY_MATRIX_HOMESERVER=https://matrix.example.org",
	"RELAY_MATRIX_USERNAME=@relay:example.org",
	"MATRIX_PASSWORD=bot-secret",
	"ADMIN_PASSWORD=admin-secret",
	"RELAY_ADMIN_MATRIXID=@you:example.org",
}

func with(more ...string) []string { return append(append([]string{}, minimal...), more...) }

func source(text string, environ []string) (*Config, *config.Report, error) {
	return load(config.Options{File: "relay.yml", Source: []byte(text), Environ: environ})
}

func TestAddress(t *testing.T) {
	tests := []struct{ yaml, want, problem string }{
		{"", "0.0.0.0:8080", ""},
		{"http: {listenaddress: '127.0.0.1:9'}", "127.0.0.1:9", ""},
		{"http: {listenaddress: '127.0.0.1'}", "127.0.0.1:8080", ""},
		{"http: {listenaddress: '127.0.0.1', port: 9090}", "127.0.0.1:9090", ""},
		{"http: {listenaddress: '', port: 9090}", ":9090", ""},
		{"http: {listenaddress: '::1', port: 9090}", "[::1]:9090", ""},
		{"http: {port: 9090}", "0.0.0.0:9090", ""},
		{"http: {listenaddress: '0.0.0.0:8080', port: 8080}", "0.0.0.0:8080", ""},
		{"http: {listenaddress: '0.0.0.0:8080', port: 9090}", "", "http.port"},
		{"http: {listenaddress: '0.0.0.0:8080:8080'}", "", "http.listenaddress"},
		{"http: {listenaddress: 'host:http'}", "", "http.listenaddress"},
		{"http: {port: 70000}", "", "http.port"},
	}
	for _, tt := range tests {
		c, _, err := source(tt.yaml, minimal)
		switch {
		case tt.problem == "" && err != nil:
			t.Errorf("%s: %v", tt.yaml, err)
		case tt.problem == "" && c.HTTP.ListenAddress != tt.want:
			t.Errorf("%s: listens on %q, want %q", tt.yaml, c.HTTP.ListenAddress, tt.want)
		case tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)):
			t.Errorf("%s: error %v, want one about %s", tt.yaml, err, tt.problem)
		}
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		yaml string
		want []string
	}{
		{"database: {dialect: postgres}", []string{"database.host", "PostgreSQL"}},
		{"database: {dialect: postgres, host: db, port: 70000}", []string{"database.port", "70000"}},
		{"database: {dialect: postgres, host: db, tls: perhaps}", []string{"database.tls", "verify-full"}},
		{"database: {dialect: postgres, connection: /data/other.db}", []string{"database.connection", "connection string"}},
		{"database: {dialect: postgres, connection: 'host=db password=x1y2'}", []string{"database.connection", "database.password_file"}},
		{"database: {dialect: postgres, connection: 'postgres://u:x1y2@db/relay'}", []string{"database.connection", "database.password_file"}},
		{"database: {dialect: postgres, connection: 'postgres://u@db/relay?sslmode=verify-full'}", nil},
		{"database: {dialect: postgres, connection: 'host=a,b dbname=relay target_session_attrs=read-write', password: x1y2}", nil},
		{"database: {dialect: PostgreSQL, host: db}", nil},
		{"database: {dialect: mysql}", []string{"database.dialect", "mysql"}},
		{"database: {dialect: oracle}", []string{"database.dialect", "oracle"}},
		{"database: {connection: ''}", []string{"database.connection"}},
		{"securty: {checktoken: true}", []string{"securty", "security"}},
		{"security: {checktokens: true}", []string{"security.checktokens", "checktoken"}},
		{"security: {checktoken: perhaps}", []string{"security.checktoken", "perhaps"}},
		{"logging: {level: loud}", []string{"logging.level", "loud"}},
		{"matrix: {homeserver: matrix.example.org}", nil}, // the variable wins
		{"hook: {registry: {secret: '${NOT_SET}'}}", []string{"hook.registry.secret", "NOT_SET"}},
		{"matrix: {invites: {servers: ['@a:b']}}", []string{"matrix.invites.servers"}},
		{"admin: {name: 'a:b'}", []string{"admin.name"}},
		{"admin: {matrixid: me}\ndelivery: {maxage: 72}\nlimits: {waiting: 0}\nhttp: {listenaddress: 'a:1', port: 2}\nhistory: {retention: 30}", []string{"delivery.maxage", "limits.waiting", "http.port", "history.retention"}},
		{"http: {trustedProxies: [nonsense]}", []string{"http.trustedproxies", "nonsense"}},
		{"history: {retention: 30}", []string{"history.retention", "is not a duration"}},
		{"history: {retention: -1s}", []string{"history.retention"}},
		{"limits: {rateperminute: -1}", []string{"limits.rateperminute: must not be negative"}},
		{"limits: {burst: -1}", []string{"limits.burst: must not be negative"}},
		{"http: {publicurl: relay.example.org}", []string{`http.publicurl: "relay.example.org" is not a URL such as https://relay.example.org`}},
		{"limits: {message: 9MiB}", []string{"limits.message", "limits.body"}},
		{"http: {certfile: x}", []string{"http.certfile", "keyfile"}},
		{"http: {acme: {email: x}}", []string{"http.acme.hosts: is required"}},
		{"http: {acme: {hosts: ['*.example.org']}}", []string{"http.acme.hosts[0]", "must be a full name"}},
		{"http: {acme: {hosts: [a.example.org], directoryurl: 'http://a.example.org'}}", []string{"http.acme.directoryurl", "https://"}},
		{"http: {acme: {hosts: [a.example.org]}, certfile: x, keyfile: y}", []string{"http.acme: is in place of http.certfile"}},
		{"http: {trustedproxies: [nonsense]}", []string{"http.trustedproxies", "nonsense"}},
		{"auth: {oidc: {}}", []string{"auth.oidc.issuer: must be an https URL", "auth.oidc.clientid: is missing"}},
		{"auth: {oidc: {issuer: 'http://id.example.org', clientid: relay}}", []string{"auth.oidc.issuer: must be an https URL"}},
		{"auth: {oidc: {issuer: 'https://u:x1y2@id.example.org', clientid: relay}}", []string{"auth.oidc.issuer: must be an https URL"}},
		{"auth: {oidc: {issuer: 'https://id.example.org', clientid: relay, nameclaim: '', servername: 'https://example.org'}}", []string{"auth.oidc.nameclaim", "auth.oidc.servername"}},
		{"auth: {oidc: {issuer: 'https://id.example.org', clientid: relay, servername: '@a:b'}}", []string{"auth.oidc.servername"}},
		{"auth: {oidc: {issuer: 'https://id.example.org/realms/main', clientid: relay, clientsecret: x1y2, servername: 'example.org:8448', create: true}}", nil},
		{"auth: {oidc: {issuer: 'http://127.0.0.1:3000', clientid: relay}}", nil},
		{"alertmanager: {annotationtitle: x}", []string{"alertmanager"}},
		{"hook: {registry: {secret: x}}", []string{"hook.registry.secret", "too short: 1 ", "at least 16", "openssl rand"}},
		{"hook: {registry: {secret: '                    '}}", []string{"hook.registry.secret", "too short: 0 "}},
		{"hook: {registry: {secret: '  fifteen-letters  '}}", []string{"hook.registry.secret", "too short: 15 "}},
		{"hook: {registry: {secret: changemechangeme}}", []string{"hook.registry.secret", "repeats a few characters", "openssl rand"}},
		{"hook: {registry: {secret: a-long-random-string}}", []string{"hook.registry.secret", "is an example"}},
		{"matrix: {pickle_key: 0123456789abcdef0123456789abcdef}", []string{"matrix.pickle_key", "everybody tries", "openssl rand"}},
		{"hook: {registry: {secret: sixteen-letters!}}", nil},
		{"hook: {registry: {secret: ''}}", nil},
	}
	for _, tt := range tests {
		_, _, err := source(tt.yaml, minimal)
		if tt.want == nil {
			if err != nil {
				t.Errorf("%s: %v", tt.yaml, err)
			}
			continue
		}
		for _, w := range tt.want {
			if err == nil || !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "x1y2") {
				t.Errorf("%s: error %v, want %q in it", tt.yaml, err, w)
			}
		}
	}
}

// TestBotAccount: where the homeserver is, and what the bot's name may look like.
func TestBotAccount(t *testing.T) {
	for _, tt := range []struct{ homeserver, username, want string }{
		{"https://hs.example.org", "relay", ""},
		{"https://hs.example.org/matrix/", "@relay:example.org", ""},
		{"https://hs.example.org", "@relay", `matrix.username: "@relay" is not a Matrix ID such as @relay:example.org; a name on the homeserver, such as relay, has no @`},
		{"https://hs.example.org/_matrix", "relay", `matrix.homeserver: "https://hs.example.org/_matrix" must end before /_matrix, such as https://matrix.example.org`},
		{"https://hs.example.org/_matrix/client/v3/", "relay", "must end before /_matrix"},
		{"hs.example.org", "relay", `matrix.homeserver: "hs.example.org" is not a URL such as https://matrix.example.org`},
	} {
		_, _, err := source("", append([]string{"RELAY_MATRIX_HOMESERVER=" + tt.homeserver, "RELAY_MATRIX_USERNAME=" + tt.username}, minimal[2:]...))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s: %v, want %q", tt.homeserver, tt.username, err, tt.want)
		}
	}
}

// TestMissing: everything that is missing is told at once, by its key.
func TestMissing(t *testing.T) {
	_, _, err := source("logging: {level: info}", nil)
	if err == nil {
		t.Fatal("an empty configuration is valid")
	}
	for _, key := range []string{"matrix.homeserver", "matrix.username", "matrix.password", "admin.password", "admin.matrixid"} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
	if _, _, err := source("", with("ADMIN_PASSWORD=seven77")); err == nil || !strings.Contains(err.Error(), "admin.password: is too short: 7") {
		t.Errorf("a password of 7 characters: %v", err)
	}
	if c, _, err := source("http: {trustedProxies: [10.0.0.1]}", minimal); err != nil || len(c.HTTP.TrustedProxies) != 1 {
		t.Errorf("PushBits' spelling: %v", err)
	}
	if _, _, err := source("matrix: {homeserver: 'https://h', accesstoken: syt_x}", with("MATRIX_PASSWORD=")); err != nil {
		t.Errorf("an access token does not stand in for the password: %v", err)
	}
}

func TestSecretsFromFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bot")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bare := minimal[:2:2]
	bare = append(bare, minimal[4])
	for _, tt := range [][]string{
		append(bare[:3:3], "RELAY_MATRIX_PASSWORD_FILE="+file, "RELAY_ADMIN_PASSWORD_FILE="+file),
		append(bare[:3:3], "MATRIX_PASSWORD_FILE="+file, "ADMIN_PASSWORD_FILE="+file),
	} {
		c, _, err := load(config.Options{Environ: tt})
		if err != nil {
			t.Errorf("%q: %v", tt, err)
			continue
		}
		if got := c.Matrix.Password.Reveal() + c.Admin.Password.Reveal(); got != "from-filefrom-file" {
			t.Errorf("%q: secrets %q", tt, got)
		}
	}
}

// TestEnvironmentReachesEveryLeaf sets each setting by its variable.
func TestEnvironmentReachesEveryLeaf(t *testing.T) {
	values := map[string]string{"boolean": "false", "duration": "7s", "integer": "7", "size": "7KiB", "list of string": "[127.0.0.7]"}
	special := map[string]string{
		"database.dialect": "sqlite3", "database.tls": "require", "matrix.homeserver": "http://h.example", "http.publicurl": "http://p.example", "http.acme.hosts": "[relay.example.org]", "http.acme.directoryurl": "https://acme.example", "http.listenaddress": "127.0.0.1:7",
		"matrix.username": "@u:example.org", "admin.matrixid": "@v:example.org", "auth.oidc.issuer": "https://id.example", "auth.oidc.servername": "example.org", "metrics.listenaddress": "127.0.0.1:8", "smtp.listenaddress": "127.0.0.1:9",
		"logging.level": "debug", "limits.body": "7MiB", "logging.format": "json", "hook.registry.secret": "text of 16 or more", "admin.password": "8 or more", "matrix.pickle_key": "thirty-two characters, or a few more",
	}
	target := Default()
	for _, leaf := range config.Walk(&target) {
		if leaf.Type == "" {
			continue
		}
		value, ok := special[leaf.Path]
		if !ok {
			value, ok = values[leaf.Type]
		}
		if !ok {
			value = "text"
		}
		name := Prefix + "_" + strings.ToUpper(strings.ReplaceAll(leaf.Path, ".", "_"))
		environ := with(name + "=" + value)
		if strings.HasPrefix(leaf.Path, "http.certfile") || strings.HasPrefix(leaf.Path, "http.keyfile") {
			environ = with("RELAY_HTTP_CERTFILE=text", "RELAY_HTTP_KEYFILE=text")
		}
		if strings.HasPrefix(leaf.Path, "http.acme.") {
			environ = append(environ, "RELAY_HTTP_ACME_HOSTS=[relay.example.org]")
		}
		if strings.HasPrefix(leaf.Path, "auth.oidc.") {
			environ = append([]string{"RELAY_AUTH_OIDC_ISSUER=https://i.example", "RELAY_AUTH_OIDC_CLIENTID=i"}, environ...)
		}
		_, report, err := load(config.Options{Environ: environ})
		if err != nil {
			t.Errorf("%s=%s: %v", name, value, err)
		} else if report.Origins[leaf.Path] == "" {
			t.Errorf("%s does not set %s", name, leaf.Path)
		}
	}
}

// TestNoFile: who gives nothing at all is told where a file goes, not every key that could be in it.
func TestNoFile(t *testing.T) {
	if _, _, err := Load("", []string{"PATH=/bin", "RELAY_URL=http://x"}); err == nil || !strings.Contains(err.Error(), "--config") || strings.Contains(err.Error(), "matrix.homeserver") {
		t.Errorf("without anything: %v", err)
	}
	if _, _, err := Load("", []string{"MATRIX_PASSWORD=x"}); err == nil || !strings.Contains(err.Error(), "--config") || !strings.Contains(err.Error(), "matrix.homeserver") {
		t.Errorf("with a variable: %v", err)
	}
}

func TestPath(t *testing.T) {
	if got := Path("a.yml", []string{"RELAY_CONFIG=b.yml"}); got != "a.yml" {
		t.Errorf("the flag gives %q", got)
	}
	if got := Path("", []string{"RELAY_CONFIG=b.yml"}); got != "b.yml" {
		t.Errorf("the variable gives %q", got)
	}
}

func TestNetworks(t *testing.T) {
	n, err := Networks([]string{"10.1.2.3/8", "::1", "192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range n {
		got = append(got, p.String())
	}
	if want := "10.0.0.0/8 ::1/128 192.0.2.1/32"; strings.Join(got, " ") != want {
		t.Errorf("networks %v, want %s", got, want)
	}
}

// TestPostgresWithoutPickleKey: it is said that the rooms that the bot makes are not encrypted, unless that is intended.
func TestPostgresWithoutPickleKey(t *testing.T) {
	for _, tt := range []struct {
		more string
		want bool
	}{
		{"", true},
		{"RELAY_MATRIX_ENCRYPT_NEW_ROOMS=false", false},
		{"RELAY_MATRIX_PICKLE_KEY=" + "thirty-two characters, or a few more", false},
		{"RELAY_DATABASE_DIALECT=sqlite3", false},
	} {
		_, report, err := Load("", []string{
			"RELAY_MATRIX_HOMESERVER=http://hs", "RELAY_MATRIX_USERNAME=@bot:hs", "MATRIX_PASSWORD=bot-secret", "ADMIN_PASSWORD=admin-secret", "RELAY_ADMIN_MATRIXID=@you:hs",
			"RELAY_DATABASE_DIALECT=postgres", "RELAY_DATABASE_CONNECTION=host=db dbname=relay", tt.more,
		})
		if err != nil {
			t.Fatal(err)
		}
		if warned := strings.Contains(strings.Join(report.Warnings, ""), "matrix.pickle_key is not set"); warned != tt.want {
			t.Errorf("%s: %q", tt.more, report.Warnings)
		}
	}
}

// Behind a proxy that isn't trusted, every client has the proxy's address.
func TestPublicURLWithoutProxies(t *testing.T) {
	for _, tt := range []struct {
		more string
		want bool
	}{
		{"RELAY_HTTP_PUBLICURL=https://relay.example.org", true},
		{"RELAY_HTTP_PUBLICURL=http://relay.example.org", false},
		{"RELAY_HTTP_PUBLICURL=https://relay.example.org RELAY_HTTP_TRUSTEDPROXIES=[127.0.0.1]", false},
	} {
		_, report, err := Load("", append([]string{
			"RELAY_MATRIX_HOMESERVER=http://hs", "RELAY_MATRIX_USERNAME=@bot:hs", "MATRIX_PASSWORD=bot-secret", "ADMIN_PASSWORD=admin-secret", "RELAY_ADMIN_MATRIXID=@you:hs",
		}, strings.Fields(tt.more)...))
		if err != nil {
			t.Fatal(err)
		}
		if warned := strings.Contains(strings.Join(report.Warnings, ""), "http.trustedproxies is empty"); warned != tt.want {
			t.Errorf("%s: %q", tt.more, report.Warnings)
		}
	}
}

// TestMissingFile: where variables name the homeserver, their errors stand alone; else the file that isn't there is one.
func TestMissingFile(t *testing.T) {
	if Path("", nil) != "" {
		t.Fatalf("this machine has %s", DefaultPath)
	}
	const short, none = "RELAY_ADMIN_PASSWORD=short", "no configuration file"
	if _, _, err := Load("", []string{minimal[0], minimal[1], minimal[2], short, minimal[4]}); err == nil || !strings.Contains(err.Error(), "is too short") || strings.Contains(err.Error(), none) {
		t.Errorf("all in variables: %v", err)
	}
	for _, environ := range [][]string{nil, {short}} {
		if _, _, err := Load("", environ); err == nil || !strings.Contains(err.Error(), none) {
			t.Errorf("%q: %v", environ, err)
		}
	}
}
