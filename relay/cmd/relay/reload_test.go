package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/relay/internal/config"
)

// SIGHUP applies passwords, limits and the log level, and names the settings that need a restart.
func TestReload(t *testing.T) {
	d := newDesk(t)
	t.Setenv("ADMIN_PASSWORD", "")
	password := filepath.Join(filepath.Dir(d.file), "password")
	set := func(secret, level, limits, more string) {
		t.Helper()
		if err := os.WriteFile(password, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		d.configure("relay.yml", "")
		text, err := os.ReadFile(d.file)
		if err != nil {
			t.Fatal(err)
		}
		whole := strings.Replace(string(text), `password: "${ADMIN_PASSWORD}"`, "password_file: "+password, 1) + "logging: {level: " + level + "}\nlimits: {" + limits + "}\n" + more
		if err := os.WriteFile(d.file, []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(secret string, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+d.addr+"/application", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("admin", secret)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	var stop func() int
	becomes := func(want int, secret, body string) {
		t.Helper()
		got := 0
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if got = ask(secret, body); got == want {
				return
			}
		}
		stop()
		t.Fatalf("%d, want %d\n%s", got, want, d.errout)
	}
	hangUp := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	set("the first password", "info", "", "")
	stop = d.serve()
	long := `{"name": "a", "description": "` + strings.Repeat("x", 900) + `"}`
	becomes(http.StatusCreated, "the first password", long)
	set("another password", "error", "body: 512, message: 256, title: 64", "history: {retention: 48h}\n")
	hangUp()
	becomes(http.StatusUnauthorized, "the first password", "{}")
	if got := ask("another password", long); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a body beyond the new limit: %d", got)
	}
	set("a third password", "info", "", "history: {retention: 48h}\n")
	hangUp()
	becomes(http.StatusUnauthorized, "another password", "{}")
	becomes(http.StatusCreated, "a third password", strings.Replace(long, `"a"`, `"b"`, 1))
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, text := range []string{"reloaded the configuration", "other settings have changed; they take effect at the next start", "history.retention"} {
		if n := strings.Count(d.errout, text); n != 1 { // the first reload turns lines of this level off
			t.Errorf("the log has %q %d times:\n%s", text, n, d.errout)
		}
	}
}

// A wrong configuration changes nothing.
func TestReload_WrongConfiguration(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	r := &reloader{load: func() (*config.Config, error) { return nil, errors.New("nonsense") }, log: zap.New(core)} // without the parts that it would change
	r.reload(t.Context())
	if logs.Len() != 1 || logs.FilterMessage("cannot reload the configuration; the former one stays").Len() != 1 {
		t.Errorf("%v", logs.All())
	}
}
