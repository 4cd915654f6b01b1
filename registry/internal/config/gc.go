package config

import (
	"time"

	"slipway/shared/config"
)

// GC collects garbage.
type GC struct {
	Enabled        bool          `key:"enabled" doc:"Collect garbage while serving."`
	Interval       time.Duration `key:"interval" doc:"Time between two collections."`
	Age            time.Duration `key:"age" min:"0" doc:"How long a blob is kept after a client pushed it or asked for it. Must be longer than a push takes, and equal on all replicas."`
	DeleteUntagged bool          `key:"deleteuntagged" doc:"Also delete manifests that no tag leads to, directly, through an index, or as subject or referrer."`
	DryRun         bool          `key:"dryrun" doc:"Only log what would be freed."`
}

func (g *GC) validate(p *config.Problems) {
	if g.Enabled {
		positive(p, "storage.maintenance.gc.interval", g.Interval)
	}
}
