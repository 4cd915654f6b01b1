// Package systemd_test holds the units against systemd's own checks and against
// what the services really do.
package systemd_test

import (
	"cmp"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"slipway/tools/harness"
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

// The configurations are valid and warn of nothing. systemd waits longer than a
// service takes to end, what they name is where the units put it, and
// systemd-sysusers makes their users.
func TestUnitsFitConfigurations(t *testing.T) {
	const cut = 5 * time.Second // that requests get which outlive the drain
	for _, service := range services {
		var c struct { // what the units have to fit
			HTTP    struct{ DrainTimeout time.Duration }
			Storage struct {
				Filesystem struct{ RootDirectory string }
			}
			Slipway  struct{ HTTP struct{ MaxConns int } }
			Matrix   struct{ Timeout time.Duration }
			Limits   struct{ Wait time.Duration }
			Database struct{ Connection string }
		}
		file := filepath.Join("..", "config", service+".yml")
		if err := yaml.Unmarshal([]byte(harness.Read(t, file)), &c); err != nil {
			t.Fatal(err)
		}
		if out, err := harness.CheckConfig(t, harness.Binary(t, service), file); err != nil || string(out) != "the configuration is valid\n" {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
		one := func(name string) string {
			m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(harness.Read(t, service+".service"))
			return append(m, "", "nothing")[1]
		}
		if stop, err := time.ParseDuration(one("TimeoutStopSec")); err != nil || stop <= c.HTTP.DrainTimeout+cut+c.Matrix.Timeout || c.HTTP.DrainTimeout <= c.Limits.Wait {
			t.Errorf("%s: TimeoutStopSec %s, it may take %s and %s more, senders wait %s (%v)", service, stop, c.HTTP.DrainTimeout, cut+c.Matrix.Timeout, c.Limits.Wait, err)
		}
		data := cmp.Or(c.Storage.Filesystem.RootDirectory, filepath.Dir(c.Database.Connection))
		if want := "/var/lib/" + one("StateDirectory"); data != want {
			t.Errorf("%s: the configuration names %s, the unit makes %s", service, data, want)
		}
		if user := regexp.MustCompile(`(?m)^u ` + one("User") + ` .* ` + data + `$`); !user.MatchString(harness.Read(t, "slipway.conf")) {
			t.Errorf("%s: slipway.conf has no %s", service, user)
		}
		if files, err := strconv.Atoi(one("LimitNOFILE")); err != nil || files < 2*c.Slipway.HTTP.MaxConns+1000 {
			t.Errorf("%s: LimitNOFILE %d for %d connections (%v)", service, files, c.Slipway.HTTP.MaxConns, err)
		}
	}
}
