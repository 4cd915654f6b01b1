package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// A tag that a dead process had in its hands is back after a start, at once, and
// before garbage is collected, which would else take its manifest for untagged.
func TestTagsAreRecovered(t *testing.T) {
	for name, work := range map[string]func(*maintenance){
		"start": func(m *maintenance) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m.start(ctx, &sync.WaitGroup{})
		},
		"collection": func(m *maintenance) { m.collect(nil)(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New()
			link := layout.TagCurrent("a", "v1")
			if err := store.WriteScratch(t.Context(), layout.ExpiringTags("a")+"/v1", layout.Link(oci.SHA256.FromBytes(nil))); err != nil {
				t.Fatal(err)
			}
			cfg, log := config.Default(), zap.NewNop()
			cfg.Storage.Maintenance.GC.DeleteUntagged = true
			work(&maintenance{cfg: &cfg, store: store, rules: registry.New(registryOptions(&cfg, store, log)), log: log})
			if _, err := store.Stat(t.Context(), link); err != nil {
				t.Error(err)
			}
		})
	}
}

// A collection by hand takes no manifest for untagged whose tag a process had in
// its hands that was killed, and is its only one.
func TestCollectionByHandSeesTagsInHands(t *testing.T) {
	for _, held := range []string{layout.Expiring + "/r0/_tags/t0", layout.Checking + layout.TagCurrent("r0", "t0")} {
		t.Run(held, func(t *testing.T) {
			v := &volume{t: t, root: t.TempDir(), want: map[string]string{}}
			p := v.push(0)
			ok(t, os.MkdirAll(filepath.Dir(v.root+held), 0o755))
			ok(t, os.Rename(v.root+layout.TagCurrent(p.repo, p.tag), v.root+held))
			t.Setenv("REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY", v.root)
			if code := run(t.Context(), []string{"garbage-collect", "-m"}, strings.NewReader(""), t.Output(), t.Output()); code != 0 {
				t.Errorf("it ended with %d", code)
			}
			v.pullAll([]picture{p})
		})
	}
}
