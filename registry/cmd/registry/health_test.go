package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAskHealth(t *testing.T) {
	down := filepath.Join(t.TempDir(), "down")
	r := start(t, map[string]string{
		"REGISTRY_STORAGE_INMEMORY":       "{}",
		"REGISTRY_HTTP_DEBUG_ADDR":        "127.0.0.1:0",
		"REGISTRY_HEALTH_FILE_0_FILE":     down,
		"REGISTRY_HEALTH_FILE_0_INTERVAL": "10ms",
	})
	t.Setenv("REGISTRY_HTTP_ADDR", strings.TrimPrefix(r.url(), "http://"))
	t.Setenv("REGISTRY_HTTP_DEBUG_ADDR", strings.TrimPrefix(r.debugURL(), "http://"))
	ask := func() (int, string) {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"health"}, strings.NewReader(""), &stdout, &stderr)
		return code, stdout.String() + stderr.String()
	}
	if code, said := ask(); code != 0 || said != "healthy\n" {
		t.Errorf("a healthy registry: %d %q", code, said)
	}
	if err := os.WriteFile(down, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, said := ask()
	for deadline := time.Now().Add(10 * time.Second); code == 0 && time.Now().Before(deadline); code, said = ask() {
		time.Sleep(5 * time.Millisecond)
	}
	if !strings.HasPrefix(said, "registry: not healthy (503 Service Unavailable): ") || !strings.Contains(said, down) {
		t.Errorf("out of service: %q", said)
	}
	t.Setenv("REGISTRY_HTTP_DEBUG_ADDR", "")
	if code, said := ask(); code != 1 || !strings.Contains(said, "the registry's log names the failed check") {
		t.Errorf("out of service, without a debug address: %d %q", code, said)
	}
	t.Setenv("REGISTRY_HTTP_ADDR", "127.0.0.1:1")
	if code, said := ask(); code != 1 || !strings.HasPrefix(said, "registry: no registry answers at 127.0.0.1:1: ") {
		t.Errorf("nobody there: %d %q", code, said)
	}
}

func TestServedBy(t *testing.T) {
	for line, want := range map[string]string{
		"registry\x00serve\x00/a/b.yml\x00":               "/a/b.yml",
		"/usr/bin/tini\x00registry\x00serve\x00c.yml\x00": "c.yml",
		"registry\x00/a/b.yml\x00":                        "/a/b.yml",
		"/bin/registry\x00b.yaml\x00":                     "b.yaml",
		"editor\x00b.yaml\x00":                            "",
		"registry\x00serve\x00":                           "",
		"/lib/systemd/systemd\x00":                        "",
		"/bin/registry\x00serve\x00-c\x00/etc/c.yml\x00":  "/etc/c.yml",
		"registry\x00serve\x00--config\x00c.yml\x00":      "c.yml",
		"registry\x00serve\x00--config=c.yml\x00":         "c.yml",
		"registry\x00--config\x00c.yml\x00serve\x00":      "c.yml",
		"sh\x00-c\x00registry-wrapper\x00":                "",
		"":                                                "",
	} {
		file := filepath.Join(t.TempDir(), "cmdline")
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := configOf(file); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if got := configOf("/nowhere"); got != "" {
		t.Errorf("no such file: %q", got)
	}
}

func TestAsContainer(t *testing.T) {
	for _, c := range []struct{ in, want []string }{
		{nil, nil},
		{[]string{"serve", "a.yml"}, []string{"serve", "a.yml"}},
		{[]string{"a.yml"}, []string{"serve", "a.yml"}},
		{[]string{"/a.yaml"}, []string{"serve", "/a.yaml"}},
		{[]string{"registry", "serve", "a.yml"}, []string{"serve", "a.yml"}},
		{[]string{"/bin/registry", "serve", "a.yml"}, []string{"serve", "a.yml"}},
		{[]string{"garbage-collect", "a.yml"}, []string{"garbage-collect", "a.yml"}},
	} {
		if got := distributionArgs(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}
