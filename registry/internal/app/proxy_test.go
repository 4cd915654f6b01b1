package app

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/config"
	"slipway/registry/internal/proxy/upstream"
)

// The password of an upstream is read again, and a reload doesn't ask for a restart because of it.
func TestUpstreamPasswordFile_Rotates(t *testing.T) {
	right := "one"
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != right {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer registry.Close()
	dir := t.TempDir()
	password, file := filepath.Join(dir, "pw"), filepath.Join(dir, "c.yml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(password, "one\n")
	write(file, "version: 0.1\nstorage: {inmemory: {}}\nauth: none\nproxy:\n  upstreams:\n  - {prefix: up, remoteurl: '"+registry.URL+"', username: u, password_file: "+password+", public: true}\n")
	load := func() (*config.Config, error) {
		cfg, _, err := config.Load(file, nil)
		return cfg, err
	}
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := CacheNames(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	ping := cache.Sources()[0].Client.Ping
	if err := ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	right = "two"
	if err := ping(t.Context()); upstream.ReasonOf(err) != upstream.Login {
		t.Errorf("the former password: %v", err)
	}
	write(password, "two\n")
	if err := ping(t.Context()); err != nil {
		t.Errorf("the new password: %v", err)
	}
	core, logs := observer.New(zap.InfoLevel)
	level := zap.NewAtomicLevel()
	r := reloader{cfg: *cfg, load: load, level: &level, gate: &gate{}, log: zap.New(core)}
	r.reload()
	if n := logs.FilterLevelExact(zap.WarnLevel).Len(); n != 0 {
		t.Errorf("the reload warns: %v", logs.All())
	}
	write(file, "version: 0.1\nstorage: {inmemory: {}}\nauth: none\nproxy:\n  upstreams:\n  - {prefix: up, remoteurl: '"+registry.URL+"', username: u, password: three, public: true}\n")
	r.reload()
	if n := logs.FilterLevelExact(zap.WarnLevel).Len(); n != 1 {
		t.Errorf("a password in the configuration needs a restart: %v", logs.All())
	}
}
