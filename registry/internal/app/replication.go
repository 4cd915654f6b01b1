package app

import (
	"context"
	"net/url"

	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/replication"
)

// Replication returns the targets that get copies; nil if there are none.
func (e *Environment) Replication() (*replication.Options, error) {
	if len(e.Config.Replication.Targets) == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	o := replication.Options{Store: e.Store, Registry: e.Rules, Caches: e.Caches(), UserAgent: "slipway/" + e.Build.Version, Log: e.Log}
	for i := range e.Config.Replication.Targets {
		t, err := replicationTarget(&e.Config.Replication.Targets[i])
		if err != nil {
			return nil, err
		}
		o.Targets = append(o.Targets, t)
	}
	return replication.New(o), nil
}

func replicationTarget(c *config.ReplicationTarget) (*replication.Target, error) {
	at, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	roots, err := certificates(c.CA, "replication")
	if err != nil {
		return nil, err
	}
	login := func(context.Context) (user, password string, err error) { return c.Username, c.Password.Reveal(), nil }
	if c.Password.File() != "" {
		login = upstream.PasswordFile(c.Username, c.Password.Reveal(), c.Password.Reread).Login
	}
	return &replication.Target{
		Name: c.Name, URL: at, Login: login, CAs: roots, Repositories: pattern.MustNames(c.Repositories), Named: c.Repositories,
		OnPush: c.OnPush, Interval: c.Interval, Deletions: c.Deletions,
	}, nil
}

// openReplication has pushes marked for the targets that get them.
func (a *App) openReplication(o *registry.Options) (finish func() error) {
	if len(a.Config.Replication.Targets) == 0 || a.Config.Storage.Maintenance.ReadOnly.Enabled {
		return func() error { return nil }
	}
	var recorder *replication.Recorder
	before := o.Changed
	o.Changed = func(name oci.Name, d oci.Digest, tags []oci.Tag) {
		if before != nil {
			before(name, d, tags)
		}
		if recorder != nil {
			recorder.Changed(name, d, tags)
		}
	}
	return func() (err error) {
		if a.replication, err = a.Replication(); err == nil {
			if recorder = replication.NewRecorder(*a.replication); recorder != nil {
				a.untilServed = append(a.untilServed, recorder.Run)
			}
		}
		return err
	}
}
