package config

import (
	"time"

	"slipway/shared/config"
)

// GC collects garbage.
type GC struct {
	Enabled        bool          `key:"enabled" doc:"Collect garbage while serving."`
	Interval       time.Duration `key:"interval" doc:"Time between two runs."`
	Age            time.Duration `key:"age" min:"0" doc:"How long a blob stays after a client pushed or requested it. Must exceed the longest push, and be equal on all replicas."`
	DeleteUntagged bool          `key:"deleteuntagged" doc:"Also delete manifests without a tag, unless a tagged index, subject or referrer leads to them."`
	DryRun         bool          `key:"dryrun" doc:"Only log what would be freed."`
}

func (g *GC) validate(p *config.Problems) {
	if g.Enabled {
		positive(p, "storage.maintenance.gc.interval", g.Interval)
	}
}
