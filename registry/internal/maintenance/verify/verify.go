// Package verify checks each blob against its digest, and whether every link leads
// to what it should.
package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/maintenance/schedule"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/shared/plural"
)

// Kind is the kind of a finding.
type Kind string

// The kinds.
const (
	DamagedBlob      Kind = "damaged_blob"      // its bytes are not those of its digest
	BadLink          Kind = "bad_link"          // it holds no digest, or another one than its path says
	DanglingLayer    Kind = "dangling_layer"    // a link to a blob that is not stored
	DanglingManifest Kind = "dangling_manifest" // a link to a manifest that is not stored
	DanglingTag      Kind = "dangling_tag"      // a tag of a manifest that the repository has not
	MissingBlob      Kind = "missing_blob"      // a manifest needs it and the repository lacks it
	MissingManifest  Kind = "missing_manifest"  // an index lists it and the repository lacks it
	NotManifest      Kind = "not_manifest"      // what is linked as a manifest is not one
	Unreadable       Kind = "unreadable"        // the storage failed
)

// kinds are all of them.
func kinds() []Kind {
	return []Kind{DamagedBlob, BadLink, DanglingLayer, DanglingManifest, DanglingTag, MissingBlob, MissingManifest, NotManifest, Unreadable}
}

// maxFindings bounds a report; those beyond it are only counted.
const maxFindings = 10_000

// Finding is one thing that is wrong.
type Finding struct {
	Kind       Kind       `json:"kind"`
	Repository oci.Name   `json:"repository,omitempty"` // of a damaged blob, one that has it
	Tag        oci.Tag    `json:"tag,omitempty"`        // of a damaged blob, one that leads to it
	Digest     oci.Digest `json:"digest,omitempty"`     // of what is damaged or missing
	By         oci.Digest `json:"by,omitempty"`         // the manifest that needs it
	Path       string     `json:"path,omitempty"`       // of the object that can be quarantined
	Detail     string     `json:"detail,omitempty"`
	Quarantine string     `json:"quarantine,omitempty"` // where it is kept
}

// Report lists the findings of a verification.
type Report struct {
	Started      time.Time    `json:"started"`
	Resumed      bool         `json:"resumed"` // one that had been interrupted
	Repositories int          `json:"repositories"`
	Manifests    int          `json:"manifests"`
	Tags         int          `json:"tags"`
	Blobs        int          `json:"blobs"`
	Bytes        int64        `json:"bytes"`
	Found        map[Kind]int `json:"found"`
	Quarantined  int          `json:"quarantined"` // of them
	Findings     []Finding    `json:"findings"`    // the first of them
}

// Open is the number of findings that remain.
func (r *Report) Open() int {
	n := -r.Quarantined
	for _, k := range r.Found {
		n += k
	}
	return n
}

// Options describes how to verify.
type Options struct {
	Store   storage.Store
	Log     *zap.Logger
	Rate    int64 // bytes read in a second, 0 = no limit
	Repair  bool  // quarantine damaged blobs and dangling links
	Sparse  bool  // an index may list manifests that are not there
	Restart bool  // do not resume one that was interrupted
	// Partial selects repositories whose manifests may lack what they need: caches, which
	// fetch that on demand. Nil selects none.
	Partial  func(oci.Name) bool
	Progress *schedule.Progress // nil = not shown
}

// verification is a verification in progress.
type verification struct {
	Options
	report Report
	pace   pace
}

// Run verifies links and blobs, and resumes the verification of blobs that was
// interrupted. The error is that of ctx, or of a storage that cannot be listed.
//
// Without repair, the links come first: they are quick. A repair begins with the
// blobs, for what it takes away leaves links that lead nowhere.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Progress == nil {
		o.Progress = &schedule.Progress{}
	}
	v := &verification{Options: o, pace: pace{rate: o.Rate}}
	v.report = Report{Started: time.Now().UTC(), Found: map[Kind]int{}, Findings: []Finding{}}
	steps := []func(context.Context) error{v.links, v.blobs, v.trace}
	if o.Repair {
		steps = []func(context.Context) error{v.dropCopy, v.blobs, v.trace, v.links}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return &v.report, err
		}
	}
	return &v.report, nil
}

func (v *verification) links(ctx context.Context) error {
	v.Progress.Enter("checking links")
	for name, err := range tree.Everything(ctx, v.Store) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = v.repository(ctx, name)
		}
		if err != nil {
			v.unreadable(ctx, Finding{Repository: name}, err)
		}
	}
	return ctx.Err()
}

// found takes a finding into the report, and quarantines its object if that is wanted. state is what the object was when it
// was looked at, nil if there is no object to take away. The result has the key in the quarantine.
func (v *verification) found(ctx context.Context, f Finding, state *storage.Info) Finding {
	if v.Repair && state != nil {
		v.repair(ctx, &f, state)
	}
	v.record(f)
	v.Log.Warn("verification found a problem", zap.String("kind", string(f.Kind)), zap.String("repository", string(f.Repository)),
		zap.String("tag", string(f.Tag)), zap.String("digest", string(f.Digest)), zap.String("by", string(f.By)),
		zap.String("path", f.Path), zap.String("detail", f.Detail), zap.String("quarantine", f.Quarantine))
	return f
}

func (v *verification) record(f Finding) {
	v.report.Found[f.Kind]++
	if f.Quarantine != "" {
		v.report.Quarantined++
	}
	if len(v.report.Findings) < maxFindings {
		v.report.Findings = append(v.report.Findings, f)
	}
}

func (v *verification) unreadable(ctx context.Context, f Finding, err error) {
	if ctx.Err() != nil {
		return
	}
	f.Kind, f.Detail = Unreadable, err.Error()
	v.found(ctx, f, nil)
}

func absent(err error) bool { return errors.Is(err, storage.ErrNotExist) }

// stat describes an object. One that was just written has no version for a moment, which
// is waited for: without it a later change could not be detected.
func (v *verification) stat(ctx context.Context, key string) (info storage.Info, err error) {
	for range 10 {
		if info, err = v.Store.Stat(ctx, key); err != nil || info.Version != "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return info, err
}

// unchanged reports whether an object is still the one that was seen. The time counts
// too: two writes of the same content may have one version.
func unchanged(now, seen storage.Info) bool {
	return now.Version == seen.Version && now.Size == seen.Size && now.Modified.Equal(seen.Modified)
}

// ErrFound is the error of a command if problems remain.
func (r *Report) ErrFound() error {
	if n := r.Open(); n > 0 {
		return fmt.Errorf("%s found, %d quarantined", plural.Of(n+r.Quarantined, "problem"), r.Quarantined)
	}
	return nil
}
