package collect

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
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

// log writes the summary of a run.
func (p *Report) log(log *zap.Logger, err error) {
	if errors.Is(err, storage.ErrBusy) {
		log.Info("garbage collection skipped: another process is collecting")
		return
	}
	for _, problem := range p.Problems {
		log.Error("garbage collection skipped a repository",
			zap.String("repository", string(problem.Repository)), zap.String("manifest", string(problem.Manifest)), zap.String("reason", problem.Error))
	}
	fields := []zap.Field{
		zap.Duration("duration", p.Duration), zap.Bool("dryrun", p.DryRun), zap.Int("repositories", p.Repositories),
		zap.Int64("manifests.found", p.Manifests.Found), zap.Int64("manifests.freed", p.Manifests.Freed),
		zap.Int64("blobs.found", p.Blobs.Found), zap.Int64("blobs.freed", p.Blobs.Freed),
		zap.Int64("bytes.found", p.Bytes.Found), zap.Int64("bytes.freed", p.Bytes.Freed),
		zap.Int64("bytes.restorable", p.Kept.Restorable.Bytes), zap.Int64("bytes.recent", p.Kept.Recent.Bytes), zap.Int64("bytes.unreadable", p.Kept.Unreadable.Bytes),
		zap.Int("problems", len(p.Problems)),
	}
	if err != nil && !errors.Is(err, ErrIncomplete) {
		log.Error("garbage collection failed", append(fields, zap.Error(err))...)
		return
	}
	log.Info("garbage collection finished", fields...)
}
