package app

import (
	"context"
	"time"

	"slipway/registry/internal/pageindex"
)

// Time between two passes over the storage while the lists of the pages are being viewed.
const (
	passLocal  = 5 * time.Minute
	passRemote = time.Hour
)

// openIndex makes what the pages show of repositories without reading the storage.
func (a *App) openIndex() {
	if !a.Config.HTTP.UI.Enabled {
		return
	}
	interval := passLocal
	if a.Store.Remote {
		interval = passRemote
	}
	x := pageindex.New(pageindex.Options{
		Store: a.Store, Remote: a.Store.Remote, Interval: interval, Log: a.Log,
		Pulls: func(ctx context.Context) (pageindex.Pulls, error) { return a.Pulls.Read(ctx) },
	})
	a.index = x
	a.background = append(a.background, x.Run)
}
