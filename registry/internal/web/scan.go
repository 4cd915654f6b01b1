package web

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/web/imageinfo"
	"slipway/registry/internal/web/scanreport"
	"slipway/shared/shares"
)

const (
	maxScanBytes  = 32 << 20 // of scan reports and their manifests that one page reads
	minScanBytes  = 16 << 10 // that any of them counts as; no manifest of reports may have more
	maxDocuments  = 4        // of one manifest that are read
	maxScans      = 100      // of an image that a page shows
	maxRemembered = 16 << 10 // reports, and manifests of them, which their digests fix
)

// scanned is a scan report that is attached to an image.
type scanned struct {
	scanreport.Report
	Problem  string     // why the report can't be shown; "" = it can
	Platform string     // of the image in an index that it is about; "" = the image of the page itself
	Manifest oci.Digest // that holds it
}

const (
	unreadable = "unreadable"
	tooLarge   = "too large to read"
	lost       = "missing or damaged"
	notYet     = "not read yet" // another visit of the page reads more
)

// Class returns the style of the report. None is "good": a report isn't proven.
func (s *scanned) Class() string {
	switch {
	case s.Problem == "" && s.Counts[scanreport.Critical]+s.Counts[scanreport.High] > 0:
		return "bad"
	case s.Problem != "" || s.Counts[scanreport.Medium] > 0:
		return "warn"
	}
	return "info"
}

// documents are the blobs of a manifest that may be scan reports.
type documents struct {
	blobs   []oci.Descriptor // digests and sizes only
	claimed bool             // that they are
	created time.Time
}

// attachment is an entry of the list of referrers of an image.
type attachment struct {
	Digest oci.Digest
	Kind   string
	Scans  bool // it may have scan reports
}

// attached lists what is attached to an image, with the attestations that cosign 2 attaches by a tag.
func (web *Web) attached(v *visit, repo registry.Repository, d oci.Digest) ([]attachment, error) {
	room, err := web.reserve(v, referrerBytes)
	if err != nil {
		return nil, err
	}
	defer room.Release()
	entries, _, err := repo.Referrers(v.Context(), d, "", "", maxReferrers)
	list := make([]attachment, len(entries))
	for i := range entries {
		scans, _ := imageinfo.MayScan(&entries[i])
		list[i] = attachment{entries[i].Digest, imageinfo.KindOfEntry(&entries[i]), scans}
	}
	if at, ok := repo.TagTarget(v.Context(), oci.Tag(string(d.Algorithm())+"-"+d.Hex()+".att")); ok {
		list = append(list, attachment{at, "attestation", true})
	}
	return list, err
}

// scans finds the scan reports for one page.
type scans struct {
	web   *Web
	visit *visit
	repo  registry.Repository
	of    map[oci.Digest][]oci.Digest // what refers to the images of indexes
	left  int64                       // bytes that the page may still read
}

func (web *Web) scans(v *visit, repo registry.Repository, images ...*imageinfo.Summary) (*scans, error) {
	var children []oci.Digest
	for _, s := range images {
		for i := range s.Children {
			children = append(children, s.Children[i].Digest)
		}
	}
	of, err := repo.Referring(v.Context(), children)
	return &scans{web, v, repo, of, maxScanBytes}, err
}

// find returns the newest report of each scanner about an image, and about the images of an index: the worst first.
func (s *scans) find(attached []attachment, m *imageinfo.Summary) ([]scanned, error) {
	var own []oci.Digest
	for _, a := range attached {
		if a.Scans {
			own = append(own, a.Digest)
		}
	}
	all, err := s.newest("", own)
	for i := 0; i < len(m.Children) && err == nil; i++ {
		var more []scanned
		more, err = s.newest(m.Children[i].Platform, s.of[m.Children[i].Digest])
		all = append(all, more...)
	}
	slices.SortStableFunc(all, func(a, b scanned) int {
		return cmp.Or(strings.Compare(a.Problem, b.Problem), slices.Compare(b.Counts[:], a.Counts[:])) // those that are readable first
	})
	return all[:min(len(all), maxScans)], err
}

// newest returns the newest report of each scanner about one image, and of those that can't be read one for each problem.
func (s *scans) newest(platform string, referrers []oci.Digest) (list []scanned, err error) {
	for _, d := range referrers[:min(len(referrers), maxReferrers)] {
		of, err := s.documents(d)
		if errors.Is(err, errSpent) {
			list = append(list, scanned{Problem: notYet, Platform: platform, Manifest: d})
		} else if err != nil {
			return nil, err
		}
		for i := range of.blobs {
			one, err := s.scan(&of.blobs[i])
			if err != nil {
				return nil, err
			}
			one.Platform, one.Manifest, one.Time = platform, d, cmp.Or(one.Time, of.created)
			if one.Time.After(time.Now().Add(time.Hour)) {
				one.Time = time.Time{} // else no later report would replace it
			}
			if of.claimed || one.Problem == "" { // else it is something else
				list = append(list, one)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b scanned) int { return b.Time.Compare(a.Time) })
	seen := map[[2]string]bool{}
	return slices.DeleteFunc(list, func(f scanned) bool {
		key := [2]string{strings.ToLower(f.Scanner), f.Problem}
		older := seen[key]
		seen[key] = true
		return older
	}), nil
}

// documents reads a manifest: none if it is no attachment that may have reports. It remembers them.
func (s *scans) documents(d oci.Digest) (of documents, err error) {
	key := string(s.repo.Name()) + "@" + string(d)
	if of, ok := s.web.documents.Get(key); ok {
		return of, nil
	}
	room, err := s.reserve(minScanBytes)
	if err != nil {
		return of, err
	}
	defer room.Release()
	m, err := s.repo.Peek(s.visit.Context(), oci.Reference{Digest: d})
	if registry.IsLost(err) {
		return of, nil
	} else if err != nil {
		return of, err
	}
	may, claimed := imageinfo.MayScan(&m.Descriptor)
	if parsed, err := oci.ReadManifest(m.Bytes); may && err == nil && m.Size <= minScanBytes {
		for _, l := range parsed.Layers[:min(len(parsed.Layers), maxDocuments)] {
			of.blobs = append(of.blobs, oci.Descriptor{Digest: oci.Digest(strings.Clone(string(l.Digest))), Size: l.Size})
		}
		of.claimed = claimed
		of.created, _ = time.Parse(time.RFC3339, m.Annotations["org.opencontainers.image.created"])
	}
	s.web.documents.Put(key, of, 1)
	return of, nil
}

// scan reads a report, and remembers it if another attempt would have the same result.
func (s *scans) scan(d *oci.Descriptor) (one scanned, err error) {
	key := string(s.repo.Name()) + "@" + string(d.Digest)
	if one, ok := s.web.reports.Get(key); ok {
		return one, nil
	}
	if d.Size > scanreport.MaxReport {
		return scanned{Problem: tooLarge}, nil
	}
	room, err := s.reserve(d.Size)
	if errors.Is(err, errSpent) {
		return scanned{Problem: notYet}, nil
	} else if err != nil {
		return one, err
	}
	defer room.Release()
	content, err := s.repo.ReadBlob(s.visit.Context(), d.Digest, d.Size)
	if registry.IsLost(err) {
		return scanned{Problem: lost}, nil
	} else if err != nil {
		return one, err
	}
	if one.Report, err = scanreport.Read(content); err != nil {
		one = scanned{Problem: unreadable}
	}
	one.Scanner, one.Version = imageinfo.Clip(one.Scanner), imageinfo.Clip(one.Version)
	s.web.reports.Put(key, one, 1)
	return one, nil
}

var errSpent = errors.New("the page has read enough reports")

// reserve waits for room to read size bytes. The error is errSpent if the page has read enough.
func (s *scans) reserve(size int64) (*shares.Held, error) {
	if s.left < size {
		return nil, errSpent
	}
	s.left -= max(size, minScanBytes)
	return s.web.reserve(s.visit, scanreport.Room(size))
}

// scansOf finds the reports for the page of an image. The caller holds no room.
func (web *Web) scansOf(v *visit, repo registry.Repository, ref oci.Reference) ([]scanned, error) {
	d := ref.Digest
	if ref.Tag != "" {
		d, _ = repo.TagTarget(v.Context(), ref.Tag)
	}
	if d == "" {
		return nil, nil
	}
	m, err := web.summary(v, repo, d)
	if m == nil || err != nil {
		return nil, err
	}
	found, err := web.scans(v, repo, m)
	if err != nil {
		return nil, err
	}
	attached, err := web.attached(v, repo, d)
	if err != nil {
		return nil, err
	}
	return found.find(attached, m)
}
