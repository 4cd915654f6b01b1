package maintenance

import (
	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/registry/internal/maintenance/retention"
	"slipway/registry/internal/maintenance/verify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/proxy"
)

// RetentionRules compiles rules that the configuration has been checked for.
func RetentionRules(rules []config.RetentionRule) []retention.Rule {
	compiled := make([]retention.Rule, len(rules))
	for i, rule := range rules {
		compiled[i] = retention.Rule{
			Repositories: pattern.MustNames(rule.Repositories), Tags: pattern.MustTags(rule.Tags),
			Delete: rule.Action == "delete", Keep: pattern.MustTags(rule.Keep),
			Newest: rule.Newest, NewerThan: rule.NewerThan, PulledWithin: rule.PulledWithin,
		}
	}
	return compiled
}

// VerifyOptions returns the options of a verification that the configuration sets.
func VerifyOptions(cfg *config.Config) verify.Options {
	v := cfg.Storage.Maintenance.Verify
	sparse := cfg.Validation.Disabled || cfg.Validation.Manifests.Indexes.Platforms != "all"
	return verify.Options{Rate: int64(v.Rate), Repair: v.Repair, Sparse: sparse}
}

// SyncImages compiles the images of a mirror.
func SyncImages(s *config.ProxySync) []proxy.Image {
	images := make([]proxy.Image, len(s.Images))
	for i, image := range s.Images {
		images[i] = proxy.Image{Repository: oci.Name(image.Repository), Tags: pattern.MustTags(image.Tags), Platforms: image.Platforms}
	}
	return images
}

// DeletedTag returns the audit record of a tag that retention has deleted.
func DeletedTag(v *retention.Verdict) audit.Record {
	return audit.Record{Event: "delete", Repository: string(v.Repository), Reference: string(v.Tag), Digest: string(v.Digest), Reason: v.Why, Result: audit.Succeeded}
}
