package main

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// tomorrow is a storage a day later.
type tomorrow struct{ driver.Driver }

func (d tomorrow) Now() time.Time { return d.Driver.Now().Add(24 * time.Hour) }

// A tag that a dead process had in its hands is back after a start, and after a
// purge, too, which may be long before the next start.
func TestTagsAreRecovered(t *testing.T) {
	for name, recoverTags := range map[string]func(*maintenance){
		"start": func(m *maintenance) { m.recover(t.Context()) },
		"purge": func(m *maintenance) { m.purge(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New()
			link := layout.TagCurrent("a", "v1")
			if err := store.WriteScratch(t.Context(), layout.ExpiringTags("a")+"/v1", layout.Link(oci.SHA256.FromBytes(nil))); err != nil {
				t.Fatal(err)
			}
			cfg := config.Default()
			later, log := tomorrow{store}, zap.NewNop()
			recoverTags(&maintenance{cfg: &cfg, store: later, rules: registry.New(registryOptions(&cfg, later, log)), log: log})
			if _, err := store.Stat(t.Context(), link); err != nil {
				t.Error(err)
			}
		})
	}
}
