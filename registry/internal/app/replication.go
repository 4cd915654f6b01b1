package app

import (
	"errors"
	"net/url"

	"slipway/registry/internal/pattern"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/replication"
)

// Replication returns the targets that get copies; nil if there are none.
func (e *Environment) Replication() (*replication.Replicator, error) {
	if len(e.Config.Replication.Targets) == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	r := &replication.Replicator{Store: e.Store, Registry: e.Registry, Caches: cachesOf(e.Cache), UserAgent: "slipway/" + e.Build.Version, Log: e.Log}
	for i := range e.Config.Replication.Targets {
		c := &e.Config.Replication.Targets[i]
		roots, err := certificates(c.CA, "replication")
		at, err2 := url.Parse(c.URL)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		r.Targets = append(r.Targets, &replication.Target{
			Name: c.Name, URL: at, Login: upstream.PasswordFile(c.Username, c.Password.Reveal(), c.Password.Reread).Login, CAs: roots,
			Repositories: pattern.MustNames(c.Repositories), OnPush: c.OnPush, Interval: c.Interval, Deletions: c.Deletions, Woken: make(chan struct{}, 1),
		})
	}
	return r, nil
}
