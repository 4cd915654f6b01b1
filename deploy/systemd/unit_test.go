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
)

var services = []string{"registry", "relay"}

// systemd knows every directive, and finds the units hardened: an exposure of
// 1.5 at most, where 10 is a service without any restriction.
func TestUnitsVerify(t *testing.T) {
	for _, service := range services {
		unit := harness.Write(t, filepath.Join(t.TempDir(), service+".service"),
			strings.ReplaceAll(harness.Read(t, service+".service"), "/usr/local/bin/"+service, harness.Binary(t, service)))
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
	passwd := harness.Read(t, filepath.Join(root, "etc", "passwd"))
	for _, service := range services {
		u := parse(harness.Read(t, service+".service"))
		if !regexp.MustCompile(`(?m)^` + u.one("User") + `:.*:/var/lib/` + u.one("StateDirectory") + `:/usr/sbin/nologin$`).MatchString(passwd) {
			t.Errorf("%s: no such user in\n%s", service, passwd)
		}
	}
}

// configuration is what the units have to fit.
type configuration struct {
	HTTP    struct{ DrainTimeout time.Duration }
	Storage struct {
		Filesystem struct{ RootDirectory string }
	}
	Slipway  struct{ HTTP struct{ MaxConns int } }
	Matrix   struct{ Timeout time.Duration }
	Limits   struct{ Wait time.Duration }
	Database struct{ Connection string }
}

// systemd waits longer than a service takes to end, and what the configurations
// name is where the units put it.
func TestUnitsFitConfigurations(t *testing.T) {
	const cut = 5 * time.Second // that requests get which outlive the drain
	for _, service := range services {
		var c configuration
		if err := yaml.Unmarshal([]byte(harness.Read(t, filepath.Join("..", "config", service+".yml"))), &c); err != nil {
			t.Fatal(err)
		}
		u := parse(harness.Read(t, service+".service"))
		if stop, err := time.ParseDuration(u.one("TimeoutStopSec")); err != nil || stop <= c.HTTP.DrainTimeout+cut+c.Matrix.Timeout {
			t.Errorf("%s: TimeoutStopSec %s, it may take %s (%v)", service, stop, c.HTTP.DrainTimeout+cut+c.Matrix.Timeout, err)
		}
		data := c.Storage.Filesystem.RootDirectory
		if service == "relay" {
			data = filepath.Dir(c.Database.Connection)
		}
		if want := "/var/lib/" + u.one("StateDirectory"); data != want {
			t.Errorf("%s: the configuration names %s, the unit makes %s", service, data, want)
		}
		if c.HTTP.DrainTimeout <= c.Limits.Wait {
			t.Errorf("%s: draintimeout %s cuts senders that wait %s", service, c.HTTP.DrainTimeout, c.Limits.Wait)
		}
		if c.Slipway.HTTP.MaxConns > 0 {
			if files, err := strconv.Atoi(u.one("LimitNOFILE")); err != nil || files < 2*c.Slipway.HTTP.MaxConns+1000 {
				t.Errorf("%s: LimitNOFILE %d for %d connections (%v)", service, files, c.Slipway.HTTP.MaxConns, err)
			}
		}
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
