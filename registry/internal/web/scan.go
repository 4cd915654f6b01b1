package web

import (
	"slices"
	"strings"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/web/imageinfo"
	"slipway/registry/internal/web/scanreport"
)

const (
	maxScanBytes = 32 << 20 // of scan reports and their manifests that one page reads
	minScanBytes = 16 << 10 // that any of them counts as
	maxScans     = 100      // of an image that a page shows
)

// scanned is a scan report on a page.
type scanned struct {
	imageinfo.Scan
	Platform string     // of the image in an index that it is about; "" = the image of the page itself
	Manifest oci.Digest // that holds it
}

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
		if a.Problem == "" && b.Problem == "" {
			return slices.Compare(b.Counts[:], a.Counts[:])
		}
		return strings.Compare(a.Problem, b.Problem) // those that are readable first
	})
	return all[:min(len(all), maxScans)], err
}

// newest returns the newest report of each scanner about one image, and those that can't be read.
func (s *scans) newest(platform string, referrers []oci.Digest) (list []scanned, err error) {
	for _, d := range referrers[:min(len(referrers), maxReferrers)] {
		found, err := s.web.images.Scans(s.visit.Context(), s.repo, d, s.read)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			list = append(list, scanned{f, platform, d})
		}
	}
	slices.SortStableFunc(list, func(a, b scanned) int { return b.Time.Compare(a.Time) })
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(f scanned) bool {
		scanner := strings.ToLower(f.Scanner)
		older := seen[scanner]
		seen[scanner] = f.Problem == "" || older
		return older && f.Problem == ""
	}), nil
}

// read waits for room to read size bytes. The error is [imageinfo.ErrSpent] if the page has read enough.
func (s *scans) read(size int64) (release func(), err error) {
	if s.left < size {
		return nil, imageinfo.ErrSpent
	}
	s.left -= max(size, minScanBytes)
	room, err := s.web.reserve(s.visit, scanreport.Room(size))
	if err != nil {
		return nil, err
	}
	return room.Release, nil
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
