package collect

import (
	"time"

	"slipway/registry/internal/oci"
)

// Report describes the outcome of a run, or of a dry run.
type Report struct {
	DryRun       bool          `json:"dryRun"`
	Duration     time.Duration `json:"durationNanoseconds"`
	Repositories int           `json:"repositories"`
	Manifests    Count         `json:"manifests"`
	Blobs        Count         `json:"blobs"`
	Bytes        Count         `json:"bytes"`
	Kept         Reasons       `json:"kept"`
	LayerLinks   int64         `json:"layerLinksRemoved"`
	TagEntries   int64         `json:"tagHistoryRemoved"`
	Problems     []Problem     `json:"problems"`
}

// Count is about one kind of thing. Manifests are counted in each repository.
type Count struct {
	Found int64 `json:"found"`
	Freed int64 `json:"freed"`
	Kept  int64 `json:"kept"`
}

// Reasons explains why blobs were kept. Each counts for the first reason that it has.
type Reasons struct {
	InUse      Reason `json:"inUse"`
	Untagged   Reason `json:"inUseByUntaggedManifests"` // a part of InUse
	Restorable Reason `json:"restorable"`               // of what was deleted and can be restored
	Recent     Reason `json:"recent"`
	Unreadable Reason `json:"inUnreadableRepositories"`
}

// Reason counts the blobs that were kept for one reason, and their bytes.
type Reason struct {
	Blobs int64 `json:"blobs"`
	Bytes int64 `json:"bytes"`
}

func (n *Reason) add(size int64) {
	n.Blobs++
	n.Bytes += size
}

// Problem explains why a repository was skipped.
type Problem struct {
	Repository oci.Name   `json:"repository"`
	Manifest   oci.Digest `json:"manifest,omitempty"`
	Error      string     `json:"error"`
}

// keep counts a blob that is kept.
func (p *Report) keep(why reason, size int64) {
	switch {
	case why&inUse != 0:
		p.Kept.InUse.add(size)
	case why&byUntagged != 0:
		p.Kept.InUse.add(size)
		p.Kept.Untagged.add(size)
	case why&restorable != 0:
		p.Kept.Restorable.add(size)
	case why&recent != 0:
		p.Kept.Recent.add(size)
	default:
		p.Kept.Unreadable.add(size)
	}
	p.Blobs.Found++
	p.Blobs.Kept++
	p.Bytes.Found += size
	p.Bytes.Kept += size
}

// free counts bytes that are deleted.
func (p *Report) free(size int64) {
	p.Blobs.Found++
	p.Blobs.Freed++
	p.Bytes.Found += size
	p.Bytes.Freed += size
}
