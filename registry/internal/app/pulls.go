package app

import (
	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/registry"
)

// openPulls records pulls if a rule of retention or a cache depends on them.
func (a *App) openPulls(o *registry.Options) {
	a.Pulls = lastpull.NewFile(a.Store)
	work := &a.Config.Storage.Maintenance
	wanted := a.Config.Proxy.Enabled()
	for _, rule := range work.Retention.Rules {
		wanted = wanted || rule.PulledWithin > 0
	}
	if !wanted || work.ReadOnly.Enabled {
		return
	}
	recorder := lastpull.Start(a.Pulls, a.Log)
	a.onClose(func() error { recorder.Close(); return nil })
	o.Pulled = recorder.Record
}
