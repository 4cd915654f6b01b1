package imageinfo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/web/scanreport"
)

const (
	maxReports        = 4        // documents of one manifest that are read
	maxReportManifest = 64 << 10 // bytes of a manifest of reports
)

// Scan is a scan report that is attached to an image.
type Scan struct {
	scanreport.Report
	Problem string // why the report can't be shown; "" = it can
}

const (
	unreadable = "unreadable"
	tooLarge   = "too large to read"
	lost       = "missing or damaged" // it may come back
	notYet     = "not read yet"       // another visit of the page reads more
)

// final reports whether another attempt to read the report would have the same result.
func (s *Scan) final() bool { return s.Problem != lost && s.Problem != notYet }

// scans are the scan reports in a manifest.
type scans struct {
	layers  []Scan
	claimed bool // that its layers are reports
}

func (s *scans) final() bool {
	return !slices.ContainsFunc(s.layers, func(one Scan) bool { return !one.final() })
}

// shown lists the reports without layers that turned out to be something else.
func (s *scans) shown() (list []Scan) {
	for i := range s.layers {
		if s.claimed || s.layers[i].Problem == "" {
			list = append(list, s.layers[i])
		}
	}
	return list
}

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
func (x *Reader) Scans(ctx context.Context, repo registry.Repository, d oci.Digest, read func(size int64) (release func(), err error)) ([]Scan, error) {
	key := summaryKey{repo.Name(), d}
	known, ok := x.scans.Get(key)
	if ok && known.final() {
		return known.shown(), nil
	}
	layers, created, claimed, err := x.documents(ctx, repo, d, read)
	if errors.Is(err, ErrSpent) {
		return []Scan{{Problem: notYet}}, nil
	}
	if registry.IsLost(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := scans{make([]Scan, len(layers)), claimed}
	for i := range layers {
		s := &found.layers[i]
		if i < len(known.layers) && known.layers[i].final() {
			*s = known.layers[i]
			continue
		}
		if *s, err = readScan(ctx, repo, &layers[i], read); err != nil {
			return nil, err
		}
		if s.Time = cmp.Or(s.Time, created); s.Time.After(time.Now().Add(time.Hour)) {
			s.Time = time.Time{} // else no later report would replace it
		}
	}
	x.scans.Put(key, found, 1)
	return found.shown(), nil
}

// documents returns the first layers of a manifest that may have scan reports, and its date.
func (x *Reader) documents(ctx context.Context, repo registry.Repository, d oci.Digest, read func(int64) (func(), error)) (layers []oci.Descriptor, created time.Time, claimed bool, err error) {
	release, err := read(maxReportManifest)
	if err != nil {
		return nil, created, false, err
	}
	defer release()
	m, err := repo.Peek(ctx, oci.Reference{Digest: d})
	if err != nil || m.Size > maxReportManifest {
		return nil, created, false, err
	}
	may, claimed := MayScan(&m.Descriptor)
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil || !may {
		return nil, created, false, nil //nolint:nilerr // it has none
	}
	created, _ = time.Parse(time.RFC3339, m.Annotations["org.opencontainers.image.created"])
	return parsed.Layers[:min(len(parsed.Layers), maxReports)], created, claimed, nil
}

// readScan reads a layer.
func readScan(ctx context.Context, repo registry.Repository, d *oci.Descriptor, read func(int64) (func(), error)) (Scan, error) {
	if d.Size > scanreport.MaxReport {
		return Scan{Problem: tooLarge}, nil
	}
	release, err := read(d.Size)
	if errors.Is(err, ErrSpent) {
		return Scan{Problem: notYet}, nil
	}
	if err != nil {
		return Scan{}, err
	}
	defer release()
	content, err := repo.ReadBlob(ctx, d.Digest, d.Size)
	if registry.IsLost(err) {
		return Scan{Problem: lost}, nil
	}
	if content == nil || err != nil {
		return Scan{Problem: unreadable}, err
	}
	report, err := scanreport.Read(content)
	switch {
	case errors.Is(err, scanreport.ErrTooLarge):
		return Scan{Problem: tooLarge}, nil
	case err != nil:
		return Scan{Problem: unreadable}, nil
	}
	report.Scanner, report.Version = clip(report.Scanner), clip(report.Version)
	return Scan{Report: *report}, nil
}
