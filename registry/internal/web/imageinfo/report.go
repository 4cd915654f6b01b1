package imageinfo

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/web/scanreport"
)

const (
	maxReports        = 4        // documents of one manifest that are read
	maxReportManifest = 16 << 10 // bytes of a manifest of reports
)

// Scan is a scan report that is attached to an image.
type Scan struct {
	scanreport.Report
	Problem string // why the report can't be shown; "" = it can
}

const (
	unreadable = "unreadable"
	tooLarge   = "too large to read"
	lost       = "missing or damaged"
	notYet     = "not read yet" // another visit of the page reads more
)

// ErrSpent ends the reading of reports for a page.
var ErrSpent = errors.New("the page has read enough reports")

// MayScan reports whether a manifest that refers to an image may have scan reports, and whether it claims to.
func MayScan(d *oci.Descriptor) (may, claims bool) {
	if predicate := d.Annotations[bundlePredicate]; predicate != "" {
		claims = scanreport.IsPredicate(predicate)
		return claims, claims
	}
	kind := KindOf(d.ArtifactType)
	return kind == ScanReport || kind == attestation || IsConfig(d.ArtifactType), kind == ScanReport // the last as cosign 2 writes them
}

// Scans reads the scan reports in a manifest, none if it is no attachment that may have some, and remembers them. read waits for room for
// reading a number of bytes; its error is [ErrSpent] if the page may read no more.
func (x *Reader) Scans(ctx context.Context, repo registry.Repository, d oci.Digest, read func(size int64) (release func(), err error)) (list []Scan, err error) {
	a, err := x.reports(ctx, repo, d, read)
	switch {
	case errors.Is(err, ErrSpent):
		return []Scan{{Problem: notYet}}, nil
	case registry.IsLost(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	for i := range a.blobs {
		s, err := x.scan(ctx, repo, &a.blobs[i], read)
		if err != nil {
			return nil, err
		}
		if s.Time = cmp.Or(s.Time, a.created); s.Time.After(time.Now().Add(time.Hour)) {
			s.Time = time.Time{} // else no later report would replace it
		}
		if a.claimed || s.Problem == "" { // else it is something else
			list = append(list, s)
		}
	}
	return list, nil
}

// reports are the blobs of a manifest that may be scan reports.
type reports struct {
	blobs   []oci.Descriptor // digests and sizes only
	claimed bool             // that they are
	created time.Time
}

// reports reads a manifest, and remembers it.
func (x *Reader) reports(ctx context.Context, repo registry.Repository, d oci.Digest, read func(int64) (func(), error)) (r reports, err error) {
	key := summaryKey{repo.Name(), d}
	if r, ok := x.attached.Get(key); ok {
		return r, nil
	}
	release, err := read(maxReportManifest)
	if err != nil {
		return r, err
	}
	defer release()
	m, err := repo.Peek(ctx, oci.Reference{Digest: d})
	if err != nil {
		return r, err
	}
	may, claimed := MayScan(&m.Descriptor)
	if parsed, err := oci.ReadManifest(m.Bytes); may && err == nil && m.Size <= maxReportManifest {
		for _, l := range parsed.Layers[:min(len(parsed.Layers), maxReports)] {
			r.blobs = append(r.blobs, oci.Descriptor{Digest: oci.Digest(strings.Clone(string(l.Digest))), Size: l.Size})
		}
		r.claimed = claimed
		r.created, _ = time.Parse(time.RFC3339, m.Annotations["org.opencontainers.image.created"])
	}
	x.attached.Put(key, r, 1)
	return r, nil
}

// scan reads a layer, and remembers it if another attempt would have the same result.
func (x *Reader) scan(ctx context.Context, repo registry.Repository, d *oci.Descriptor, read func(int64) (func(), error)) (s Scan, err error) {
	key := summaryKey{repo.Name(), d.Digest}
	if s, ok := x.scans.Get(key); ok {
		return s, nil
	}
	if d.Size > scanreport.MaxReport {
		return Scan{Problem: tooLarge}, nil
	}
	release, err := read(d.Size)
	if errors.Is(err, ErrSpent) {
		return Scan{Problem: notYet}, nil
	}
	if err != nil {
		return s, err
	}
	defer release()
	content, err := repo.ReadBlob(ctx, d.Digest, d.Size)
	if registry.IsLost(err) {
		return Scan{Problem: lost}, nil
	}
	if err != nil {
		return s, err
	}
	switch s.Report, err = scanreport.Read(content); {
	case errors.Is(err, scanreport.ErrTooLarge):
		s = Scan{Problem: tooLarge}
	case err != nil:
		s = Scan{Problem: unreadable}
	}
	s.Scanner, s.Version = clip(s.Scanner), clip(s.Version)
	x.scans.Put(key, s, 1)
	return s, nil
}
