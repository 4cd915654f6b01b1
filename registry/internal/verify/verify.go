// Package verify reads everything again: whether the bytes of each blob are
// those of its digest, and whether every link leads to what it should.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/tree"
)

// Kind is what is wrong.
type Kind string

// The kinds.
const (
	DamagedBlob      Kind = "damaged_blob"      // its bytes are not those of its digest
	BadLink          Kind = "bad_link"          // it holds no digest, or another one than its path says
	DanglingLayer    Kind = "dangling_layer"    // a link to a blob that is not stored
	DanglingManifest Kind = "dangling_manifest" // a link to a manifest that is not stored
	DanglingTag      Kind = "dangling_tag"      // a tag of a manifest that the repository has not
	MissingBlob      Kind = "missing_blob"      // a manifest needs it and the repository has it not
	MissingManifest  Kind = "missing_manifest"  // an index lists it and the repository has it not
	NotManifest      Kind = "not_manifest"      // what is linked as a manifest is none
	Unreadable       Kind = "unreadable"        // the storage failed
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{DamagedBlob, BadLink, DanglingLayer, DanglingManifest, DanglingTag, MissingBlob, MissingManifest, NotManifest, Unreadable}
}

// maxFindings bounds a report; those beyond it are only counted.
const maxFindings = 10_000

// Finding is one thing that is wrong.
type Finding struct {
	Kind       Kind       `json:"kind"`
	Repository oci.Name   `json:"repository,omitempty"`
	Tag        oci.Tag    `json:"tag,omitempty"`
	Digest     oci.Digest `json:"digest,omitempty"` // of what is damaged or missing
	By         oci.Digest `json:"by,omitempty"`     // the manifest that needs it
	Path       string     `json:"path,omitempty"`   // of the object that can be put aside
	Detail     string     `json:"detail,omitempty"`
	Aside      string     `json:"aside,omitempty"` // where it was put
}

// Report is what a verification found.
type Report struct {
	Started      time.Time    `json:"started"`
	Resumed      bool         `json:"resumed"` // it took up one that had been interrupted
	Repositories int          `json:"repositories"`
	Manifests    int          `json:"manifests"`
	Tags         int          `json:"tags"`
	Blobs        int          `json:"blobs"`
	Bytes        int64        `json:"bytes"`
	Found        map[Kind]int `json:"found"`
	Repaired     int          `json:"repaired"` // of them: put aside
	Findings     []Finding    `json:"findings"` // the first of them
}

// Open is the number of findings that were not put aside.
func (r *Report) Open() int {
	n := -r.Repaired
	for _, k := range r.Found {
		n += k
	}
	return n
}

// Options says how to verify.
type Options struct {
	Driver  driver.Driver
	Log     *zap.Logger
	Rate    int64 // bytes read in a second, 0 = no limit
	Repair  bool  // put aside what is damaged or leads nowhere
	Sparse  bool  // an index may list manifests that are not there
	Restart bool  // do not take up one that was interrupted
}

// verification is one under way.
type verification struct {
	Options
	report Report
	pace   pace
}

// Run verifies the links and then the blobs, of which it takes up a run that was
// interrupted. The report is of both; the error is that of ctx, or of a storage
// that cannot be listed.
func Run(ctx context.Context, o Options) (*Report, error) {
	v := &verification{Options: o, pace: pace{rate: o.Rate}}
	v.report = Report{Started: o.Driver.Now().UTC(), Found: map[Kind]int{}, Findings: []Finding{}}
	if o.Repair {
		if err := v.recover(ctx); err != nil {
			return &v.report, err
		}
	}
	for name, err := range tree.Everything(ctx, o.Driver) {
		if ctx.Err() != nil {
			return &v.report, ctx.Err()
		}
		if err == nil {
			err = v.repository(ctx, name)
		}
		if err != nil {
			v.unreadable(ctx, Finding{Repository: name}, err)
		}
	}
	return &v.report, v.blobs(ctx)
}

// found takes a finding into the report, and puts its object aside if that is
// wanted. state is what the object was when it was looked at.
func (v *verification) found(ctx context.Context, f Finding, state *driver.Info) {
	if v.Repair && state != nil {
		v.repair(ctx, &f, state)
	}
	v.note(f)
	v.Log.Warn("verification found something", zap.String("kind", string(f.Kind)), zap.String("repository", string(f.Repository)),
		zap.String("tag", string(f.Tag)), zap.String("digest", string(f.Digest)), zap.String("by", string(f.By)),
		zap.String("path", f.Path), zap.String("detail", f.Detail), zap.String("aside", f.Aside))
}

func (v *verification) note(f Finding) {
	v.report.Found[f.Kind]++
	if f.Aside != "" {
		v.report.Repaired++
	}
	if len(v.report.Findings) < maxFindings {
		v.report.Findings = append(v.report.Findings, f)
	}
}

// forget takes a finding out of the report.
func (v *verification) forget(f Finding) {
	v.report.Found[f.Kind]--
	if i := slices.Index(v.report.Findings, f); i >= 0 {
		v.report.Findings = slices.Delete(v.report.Findings, i, i+1)
	}
}

func (v *verification) unreadable(ctx context.Context, f Finding, err error) {
	if ctx.Err() != nil {
		return
	}
	f.Kind, f.Detail = Unreadable, err.Error()
	v.found(ctx, f, nil)
}

func absent(err error) bool { return errors.Is(err, driver.ErrNotExist) }

// ErrFound is what a command ends with that found something.
func (r *Report) ErrFound() error {
	if n := r.Open(); n > 0 {
		return fmt.Errorf("%d problems found", n)
	}
	return nil
}
