package maintenance

import (
	"testing"
	"time"

	"slipway/registry/internal/config"
	"slipway/registry/internal/maintenance/collect"
)

// The page explains why a collection frees little.
func TestExplainCollection(t *testing.T) {
	kept := &collect.Reasons{InUse: collect.Reason{Blobs: 3, Bytes: 9000}, Untagged: collect.Reason{Blobs: 2, Bytes: 2048}, Recent: collect.Reason{Blobs: 1, Bytes: 10}}
	for _, c := range []struct {
		gc             config.GC
		limits, reason string
	}{
		{config.GC{Age: time.Hour}, "keeps untagged manifests (deleteuntagged is off) and what was pushed in the last 1h (age)", "2.0 KiB of untagged manifests (deleteuntagged is off), 10 B newer than 1h (age)"},
		{config.GC{Age: 10 * time.Minute, DeleteUntagged: true, DryRun: true}, "keeps what was pushed in the last 10m (age); frees nothing (dryrun)", "10 B newer than 10m (age)"},
	} {
		if got := collectLimits(&c.gc); got != c.limits {
			t.Errorf("%+v: %q, want %q", c.gc, got, c.limits)
		}
		if got := keptReasons(kept, &c.gc); got != c.reason {
			t.Errorf("%+v: %q, want %q", c.gc, got, c.reason)
		}
	}
	if got := keptReasons(&collect.Reasons{InUse: kept.InUse}, &config.GC{}); got != "" {
		t.Errorf("nothing to explain: %q", got)
	}
}
