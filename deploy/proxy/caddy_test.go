package proxy_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"slipway/shared/programtest"
)

func TestCaddy(t *testing.T) {
	f := newFront(t)
	_, plain, _ := strings.Cut(programtest.FreeAddr(t), ":")
	here := ":" + f.port + " {\n\tbind 127.0.0.1\n\ttls " + f.cert + " " + f.key
	global := "{\n\tadmin off\n\tauto_https disable_redirects\n\thttp_port " + plain + "\n\thttps_port " + f.port + "\n}\n"
	file := f.write(t, "Caddyfile", global+example(
		t, "Caddyfile", registryName+" {", registryName+here, relayName+" {", relayName+here,
		"127.0.0.1:5000", f.registry, "127.0.0.1:8080", f.relay, "/var/log/caddy", f.dir,
	))
	cmd := exec.Command(programtest.Tool(t, "caddy"), "run", "--adapter", "caddyfile", "--config", file)
	cmd.Env = append(os.Environ(), "HOME="+f.dir, "XDG_DATA_HOME="+f.dir, "XDG_CONFIG_HOME="+f.dir)
	f.waitFor(t, programtest.Launch(t, cmd))

	t.Run("registry", func(t *testing.T) { checkRegistry(t, f) })
	t.Run("relay", func(t *testing.T) { checkRelay(t, f) })
}
