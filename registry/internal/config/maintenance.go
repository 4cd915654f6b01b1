package config

import (
	"time"

	"slipway/registry/internal/pattern"
	"slipway/shared/config"
)

// Maintenance is about work on the storage besides serving it.
type Maintenance struct {
	UploadPurging UploadPurging `key:"uploadpurging"`
	ReadOnly      ReadOnly      `key:"readonly"`
	GC            GC            `key:"gc"`
	Immutable     []TagRule     `key:"immutable"`
	Retention     Retention     `key:"retention"`
	Verify        Verification  `key:"verify"`
}

// UploadPurging removes abandoned uploads.
type UploadPurging struct {
	Enabled  bool          `key:"enabled" doc:"Remove abandoned uploads."`
	Age      time.Duration `key:"age" min:"0" doc:"Idle time until an upload is removed."`
	Interval time.Duration `key:"interval" doc:"Time between two runs."`
	DryRun   bool          `key:"dryrun" doc:"Only log what would be removed."`
}

// ReadOnly refuses every change.
type ReadOnly struct {
	Enabled bool `key:"enabled" doc:"Refuse pushes and deletions with 405, and run no scheduled maintenance, such as gc."`
}

// GC collects garbage.
type GC struct {
	Enabled        bool          `key:"enabled" doc:"Run while serving."`
	Interval       time.Duration `key:"interval" doc:"Time between two runs."`
	Age            time.Duration `key:"age" min:"0" doc:"How long a blob is kept after a push or a HEAD; a pull doesn't count. Must exceed the longest push, and be equal on all replicas."`
	DeleteUntagged bool          `key:"deleteuntagged" doc:"Also delete manifests without a tag, unless a tagged index, subject or referrer leads to them."`
	DryRun         bool          `key:"dryrun" doc:"Only log what would be removed."`
}

// TagRule selects tags that are never moved or deleted.
type TagRule struct {
	Repositories []string `key:"repositories" doc:"Repository patterns."`
	Tags         []string `key:"tags" doc:"Regular expressions, each for the whole tag."`
}

// Retention deletes tags that are no longer needed.
type Retention struct {
	Enabled  bool            `key:"enabled" doc:"Run while serving."`
	Interval time.Duration   `key:"interval" doc:"Time between two runs."`
	DryRun   bool            `key:"dryrun" doc:"Only log what would be removed."`
	Rules    []RetentionRule `key:"rules"`
}

// RetentionRule decides about the tags that it selects and no rule before it.
type RetentionRule struct {
	Repositories []string      `key:"repositories" doc:"Repository patterns."`
	Tags         []string      `key:"tags" doc:"Regular expressions, each for the whole tag; none selects all tags."`
	Action       string        `key:"action" choices:"keep,delete" doc:"Keep the tags, or delete those that nothing below keeps."`
	Keep         []string      `key:"keep" doc:"Regular expressions of tags that are always kept."`
	Newest       int           `key:"newest" min:"0" doc:"Keep this number per repository, those pushed last."`
	NewerThan    time.Duration `key:"newerthan" min:"0" doc:"Keep tags that were pushed since."`
	PulledWithin time.Duration `key:"pulledwithin" min:"0" doc:"Keep tags that were pulled since."`
}

// Verification reads everything again, now and then.
type Verification struct {
	Enabled  bool          `key:"enabled" doc:"Run while serving."`
	Interval time.Duration `key:"interval" doc:"Time from one end to the next start."`
	Rate     config.Size   `key:"rate" doc:"Bytes read per second at most; 0 means no limit."`
	Repair   bool          `key:"repair" doc:"Quarantine damage and dangling links."`
}

func (u *UploadPurging) validate(p *config.Problems) {
	if u.Enabled {
		positive(p, "storage.maintenance.uploadpurging.age", u.Age)
		positive(p, "storage.maintenance.uploadpurging.interval", u.Interval)
	}
}

func (g *GC) validate(p *config.Problems) {
	if g.Enabled {
		positive(p, "storage.maintenance.gc.interval", g.Interval)
	}
}

func (m *Maintenance) validate(p *config.Problems) {
	for i, rule := range m.Immutable {
		at := item("storage.maintenance.immutable", i)
		names(p, at+".repositories", rule.Repositories)
		tags(p, at+".tags", rule.Tags)
		if len(rule.Tags) == 0 {
			p.Addf(at+".tags", "is required")
		}
	}
	m.GC.validate(p)
	m.Retention.validate(p, "storage.maintenance.retention")
	if m.Verify.Enabled {
		positive(p, "storage.maintenance.verify.interval", m.Verify.Interval)
	}
}

func (r *Retention) validate(p *config.Problems, key string) {
	if r.Enabled {
		positive(p, key+".interval", r.Interval)
		if len(r.Rules) == 0 {
			p.Addf(key+".rules", "is required when retention is enabled")
		}
	}
	for i := range r.Rules {
		r.Rules[i].validate(p, item(key+".rules", i))
	}
}

func (r *RetentionRule) validate(p *config.Problems, at string) {
	names(p, at+".repositories", r.Repositories)
	tags(p, at+".tags", r.Tags)
	tags(p, at+".keep", r.Keep)
	keeps := len(r.Keep) > 0 || r.Newest > 0 || r.NewerThan > 0 || r.PulledWithin > 0
	switch {
	case r.Action == "keep" && keeps:
		p.Addf(at+".action", "is keep, which keeps all tags: write action: delete to delete those that the rule does not keep")
	case r.Action == "delete" && !keeps && len(r.Tags) == 0:
		p.Addf(at, "would delete every tag: say which tags, or what to keep")
	}
}

func names(p *config.Problems, key string, patterns []string) {
	if len(patterns) == 0 {
		p.Addf(key, "is required; \"**\" is all")
	}
	if _, err := pattern.ParseNames(patterns); err != nil {
		p.Addf(key, "%v", err)
	}
}

func tags(p *config.Problems, key string, expressions []string) {
	if _, err := pattern.ParseTags(expressions); err != nil {
		p.Addf(key, "%v", err)
	}
}
