package app

import (
	"fmt"
	"net/url"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/replication"
)

// Replication returns the targets that get copies; nil if there are none.
func (e *Environment) Replication() (*replication.Replicator, error) {
	o := replication.Options{
		Store: e.Store, UserAgent: "slipway/" + e.Build.Version, Log: e.Log,
		Caches: func(n oci.Name) bool { return e.Cache != nil && e.Cache.Caches(n) },
	}
	for i := range e.Config.Replication.Targets {
		c := &e.Config.Replication.Targets[i]
		at, err := url.Parse(c.URL)
		if err != nil {
			return nil, fmt.Errorf("replication: %w", err)
		}
		roots, err := certificates(c.CA, "replication")
		if err != nil {
			return nil, err
		}
		o.Targets = append(o.Targets, &replication.Target{
			Name: c.Name, URL: at, Login: upstream.PasswordFile(c.Username, c.Password.Reveal(), c.Password.Reread).Login, CAs: roots,
			Repositories: pattern.MustNames(c.Repositories), OnPush: c.OnPush, Interval: c.Interval, Deletions: c.Deletions,
		})
	}
	if len(o.Targets) == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	r := replication.New(o)
	r.Registry = e.Registry
	return r, nil
}

// openReplication has pushes marked for the targets that get them. The caller sets the registry.
func (a *App) openReplication(o *registry.Options) (err error) {
	if a.Config.Storage.Maintenance.ReadOnly.Enabled {
		return nil
	}
	if a.replication, err = a.Replication(); a.replication == nil {
		return err
	}
	a.untilServed = append(a.untilServed, a.replication.Run)
	before := o.Changed
	o.Changed = func(name oci.Name, d oci.Digest, tags []oci.Tag) {
		if before != nil {
			before(name, d, tags)
		}
		a.replication.Changed(name, d, tags)
	}
	return nil
}
