package app

import (
	"context"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/index"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// Time between two passes over the storage while the lists of the pages are being viewed.
const (
	passLocal  = 5 * time.Minute
	passRemote = time.Hour
)

// openIndex opens what the pages show of repositories without reading the storage. The pages
// work without it, so a failure is a warning.
func (a *App) openIndex(o *registry.Options) {
	if !a.Config.HTTP.UI.Enabled {
		return
	}
	interval := passLocal
	if a.Store.Remote {
		interval = passRemote
	}
	x, err := index.Open(index.Options{
		Path: a.Config.HTTP.UI.Index, Identity: a.Store.identity, Store: a.Store, Remote: a.Store.Remote, Interval: interval, Log: a.Log,
		Pulls: func(ctx context.Context) (index.Pulls, error) { return a.Pulls.Read(ctx) },
	})
	if err != nil {
		a.Log.Warn("cannot open the index of the repositories: lists show no sizes; see http.ui.index", zap.Error(err))
		return
	}
	a.index = x
	a.onClose(x.Close)
	a.background = append(a.background, x.Run)
	o.Changed = func(name oci.Name, _ oci.Digest, _ []oci.Tag) { x.Touch(name) }
}
