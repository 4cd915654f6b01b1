package image

import (
	"cmp"
	"context"
	"errors"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/web/scan"
)

const (
	maxReports        = 4        // documents of one manifest that are read
	maxReportManifest = 64 << 10 // bytes of a manifest of reports
)

// Scan is a scan report that is attached to an image.
type Scan struct {
	scan.Report
	Problem string // why the report can't be shown; "" = it can
}

const (
	unreadable = "unreadable"
	tooLarge   = "too large to read"
	notYet     = "not read yet" // another visit of the page reads more
)

// ErrSpent ends the reading of reports for a page.
var ErrSpent = errors.New("the page has read enough reports")

// mayScan reports whether a manifest that refers to an image may have scan reports, and whether it claims to.
func mayScan(d *oci.Descriptor) (may, claims bool) {
	if predicate := d.Annotations[bundlePredicate]; predicate != "" {
		claims = scan.IsPredicate(predicate)
		return claims, claims
	}
	kind := KindOf(d.ArtifactType)
	return kind == ScanReport || kind == attestation || IsConfig(d.ArtifactType), kind == ScanReport // the last as cosign 2 writes them
}

// Scans reads the scan reports in a manifest, none if it is no attachment that may have some, and remembers them. read waits for room for
// reading a number of bytes; its error is [ErrSpent] if the page may read no more.
func (x *Reader) Scans(ctx context.Context, repo registry.Repository, d oci.Digest, read func(size int64) (release func(), err error)) ([]Scan, error) {
	key := summaryKey{repo.Name(), d}
	if scans, ok := x.scans.Get(key); ok {
		return scans, nil
	}
	layers, created, claimed, err := x.documents(ctx, repo, d, read)
	if errors.Is(err, ErrSpent) {
		return []Scan{{Problem: notYet}}, nil
	}
	if oci.IsUnknown(err) || errors.Is(err, registry.ErrDamaged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var scans []Scan
	remember := true
	for i := range layers {
		s, final, err := readScan(ctx, repo, &layers[i], read)
		if err != nil {
			return nil, err
		}
		if remember = remember && final; s.Problem == "" || claimed {
			if s.Time = cmp.Or(s.Time, created); s.Time.After(time.Now().Add(time.Hour)) {
				s.Time = time.Time{} // else no later report would replace it
			}
			scans = append(scans, s)
		}
	}
	if remember {
		x.scans.Put(key, scans, 1)
	}
	return scans, nil
}

// documents returns the first layers of a manifest that may have scan reports, and its date.
func (x *Reader) documents(ctx context.Context, repo registry.Repository, d oci.Digest, read func(int64) (func(), error)) (layers []oci.Descriptor, created time.Time, claimed bool, err error) {
	size, err := repo.PeekSize(ctx, d)
	if err != nil || size > maxReportManifest {
		return nil, created, false, err
	}
	release, err := read(size)
	if err != nil {
		return nil, created, false, err
	}
	defer release()
	m, err := repo.Peek(ctx, oci.Reference{Digest: d})
	if err != nil {
		return nil, created, false, err
	}
	may, claimed := mayScan(&m.Descriptor)
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil || !may {
		return nil, created, false, nil //nolint:nilerr // it has none
	}
	created, _ = time.Parse(time.RFC3339, m.Annotations["org.opencontainers.image.created"])
	return parsed.Layers[:min(len(parsed.Layers), maxReports)], created, claimed, nil
}

// readScan reads a layer; final reports whether another attempt would have the same result.
func readScan(ctx context.Context, repo registry.Repository, d *oci.Descriptor, read func(int64) (func(), error)) (s Scan, final bool, err error) {
	if d.Size > scan.MaxReport {
		return Scan{Problem: tooLarge}, true, nil
	}
	release, err := read(d.Size)
	if errors.Is(err, ErrSpent) {
		return Scan{Problem: notYet}, false, nil
	}
	if err != nil {
		return Scan{}, false, err
	}
	defer release()
	content, err := readBlob(ctx, repo, d, scan.MaxReport)
	if content == nil || err != nil {
		return Scan{Problem: unreadable}, false, err
	}
	report, err := scan.Read(content)
	switch {
	case errors.Is(err, scan.ErrTooLarge):
		return Scan{Problem: tooLarge}, true, nil
	case err != nil:
		return Scan{Problem: unreadable}, true, nil
	}
	report.Scanner, report.Version = clip(report.Scanner), clip(report.Version)
	return Scan{Report: *report}, true, nil
}
