package main

import (
	"context"
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
			work(&maintenance{cfg: &cfg, store: store, rules: registry.New(registryOptions(&cfg, store, log)), log: log})
			if _, err := store.Stat(t.Context(), link); err != nil {
				t.Error(err)
			}
		})
	}
}
