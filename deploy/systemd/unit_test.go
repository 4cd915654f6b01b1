// Package systemd_test holds the units against systemd's own checks and against
// what the services really do.
package systemd_test

import (
	"cmp"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"slipway/shared/programtest"
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

// A started service reports that it is ready once it listens, and that it stops.
func TestUnitsNotify(t *testing.T) {
	for _, service := range services {
		t.Run(service, func(t *testing.T) {
			if !strings.Contains(harness.Read(t, service+".service"), "\nType=notify\n") {
				t.Error("systemd doesn't wait for it")
			}
			dir, err := os.MkdirTemp("", "slipway-notify") // a socket's path has a short limit
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			socket, addr := filepath.Join(dir, "notify"), programtest.FreeAddr(t)
			manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { manager.Close() })
			says := func(want string) {
				t.Helper()
				var room [100]byte
				if err := manager.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
					t.Fatal(err)
				}
				if n, err := manager.Read(room[:]); err != nil || string(room[:n]) != want {
					t.Fatalf("it says %q, want %q (%v)", room[:n], want, err)
				}
			}
			cmd := exec.Command(harness.Binary(t, service), "serve")
			cmd.Env = []string{
				"NOTIFY_SOCKET=" + socket,
				"REGISTRY_HTTP_ADDR=" + addr, "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + t.TempDir(),
				"RELAY_HTTP_LISTENADDRESS=" + addr, "RELAY_DATABASE_CONNECTION=" + filepath.Join(t.TempDir(), "relay.db"), "RELAY_MATRIX_HOMESERVER=http://127.0.0.1:1",
				"RELAY_MATRIX_USERNAME=@relay:example.org", "RELAY_ADMIN_MATRIXID=@you:example.org", "MATRIX_PASSWORD=bot", "ADMIN_PASSWORD=administrator",
			}
			p := programtest.Launch(t, cmd)
			says("READY=1")
			if resp, _ := harness.Ask(t, nil, http.MethodGet, "http://"+addr+"/", nil); resp.StatusCode >= http.StatusInternalServerError {
				t.Errorf("it is ready, and answers %s", resp.Status)
			}
			if err := p.Stop(t, time.Minute); err != nil {
				t.Error(err)
			}
			says("STOPPING=1")
		})
	}
}
