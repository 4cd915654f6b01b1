// Package systemd_test holds the units against systemd's own checks and against
// what the services really do.
package systemd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"slipway/deploy/internal/harness"
	"slipway/shared/programtest"
)

var services = []string{"registry", "relay"}

// systemd knows every directive, and finds the units hardened: an exposure of
// 1.5 at most, where 10 is a service without any restriction.
func TestUnitsVerify(t *testing.T) {
	for _, service := range services {
		unit := filepath.Join(t.TempDir(), service+".service")
		text := strings.ReplaceAll(read(t, service+".service"), "/usr/local/bin/"+service, harness.Binary(t, service))
		if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := harness.Run(t, "systemd-analyze", "verify", "--man=no", unit); out != "" {
			t.Errorf("systemd-analyze verify says of %s:\n%s", service, out)
		}
		harness.Run(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=15", unit)
	}
}

// The users of the units are the ones that systemd-sysusers makes, with the
// directories that the units make.
func TestUsers(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Abs("slipway.conf")
	if err != nil {
		t.Fatal(err)
	}
	harness.Run(t, "systemd-sysusers", "--root="+root, file)
	passwd := read(t, filepath.Join(root, "etc", "passwd"))
	for _, service := range services {
		u := parse(read(t, service+".service"))
		if !regexp.MustCompile(`(?m)^` + u.one("User") + `:.*:/var/lib/` + u.one("StateDirectory") + `:/usr/sbin/nologin$`).MatchString(passwd) {
			t.Errorf("%s: no such user in\n%s", service, passwd)
		}
	}
}

// systemd waits longer than a service takes to end, and what the configurations
// name is where the units put it.
func TestUnitsFitConfigurations(t *testing.T) {
	const cut = 5 * time.Second // that requests get which outlive the drain
	var registry struct {
		HTTP    struct{ DrainTimeout time.Duration }
		Storage struct {
			Filesystem struct{ RootDirectory string }
		}
		Slipway struct{ HTTP struct{ MaxConns int } }
	}
	load(t, "registry", &registry)
	u := parse(read(t, "registry.service"))
	if stop := u.duration(t, "TimeoutStopSec"); stop <= registry.HTTP.DrainTimeout+cut {
		t.Errorf("registry: TimeoutStopSec %s, draintimeout %s", stop, registry.HTTP.DrainTimeout)
	}
	if want := "/var/lib/" + u.one("StateDirectory"); registry.Storage.Filesystem.RootDirectory != want {
		t.Errorf("registry: rootdirectory %s, the unit makes %s", registry.Storage.Filesystem.RootDirectory, want)
	}
	if want := "\n  file: /var/log/" + u.one("LogsDirectory") + "/"; !strings.Contains(read(t, filepath.Join(programtest.Root(t), "docs", "registry", "audit-log.md")), want) {
		t.Errorf("registry: docs/registry/audit-log.md has no %q, which the unit makes", want)
	}
	if files, err := strconv.Atoi(u.one("LimitNOFILE")); err != nil || files < 2*registry.Slipway.HTTP.MaxConns+1000 {
		t.Errorf("registry: LimitNOFILE %d for %d connections (%v)", files, registry.Slipway.HTTP.MaxConns, err)
	}

	var relay struct {
		HTTP     struct{ DrainTimeout time.Duration }
		Matrix   struct{ Timeout time.Duration }
		Limits   struct{ Wait time.Duration }
		Database struct{ Connection string }
	}
	load(t, "relay", &relay)
	u = parse(read(t, "relay.service"))
	if stop, want := u.duration(t, "TimeoutStopSec"), relay.HTTP.DrainTimeout+cut+relay.Matrix.Timeout; stop <= want {
		t.Errorf("relay: TimeoutStopSec %s, it may take %s", stop, want)
	}
	if relay.HTTP.DrainTimeout <= relay.Limits.Wait {
		t.Errorf("relay: draintimeout %s cuts senders that wait %s", relay.HTTP.DrainTimeout, relay.Limits.Wait)
	}
	if dir := filepath.Dir(relay.Database.Connection); dir != "/var/lib/"+u.one("StateDirectory") {
		t.Errorf("relay: database in %s, the unit makes %s", dir, u.one("StateDirectory"))
	}
}

// unit is a unit's settings: name → values, in order.
type unit map[string][]string

func parse(text string) unit {
	u := unit{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(name, "#") {
			u[name] = append(u[name], value)
		}
	}
	return u
}

func (u unit) one(name string) string { return strings.Join(u[name], " ") }

func (u unit) duration(t *testing.T, name string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(u.one(name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

func load(t *testing.T, service string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join("..", "config", service+".yml"))), into); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
