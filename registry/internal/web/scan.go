package web

import (
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/web/imageinfo"
	"slipway/registry/internal/web/scanreport"
)

const (
	maxScanBytes  = 32 << 20 // of scan reports that one page reads
	minScanBytes  = 16 << 10 // that any of them counts as; no manifest of reports may have more
	maxDocuments  = 4        // of one manifest that are read: the last ones, since cosign 2 appends
	maxRemembered = 16 << 10 // reports, which their digests fix
)

// attachment is an entry of the list of referrers of an image.
type attachment struct {
	Digest  oci.Digest
	Kind    string
	created time.Time
	reports []oci.Descriptor // blobs that may be scan reports, digests and sizes only
}

// scanned is a scan report that is attached to an image.
type scanned struct {
	*scanreport.Report
	Time     time.Time  // zero = its manifest isn't dated
	Manifest oci.Digest // that holds it
}

// scans finds the scan reports for one page.
type scans struct {
	web   *Web
	visit *visit
	repo  registry.Repository
	left  int64 // bytes that the page may still read
}

// attached lists what is attached to an image, the newest first, with the attestations that cosign 2 attaches by a tag.
func (s *scans) attached(d oci.Digest) (list []attachment, err error) {
	room, err := s.web.reserve(s.visit, referrerBytes)
	if err != nil {
		return nil, err
	}
	defer room.Release()
	entries, _, err := s.repo.Referrers(s.visit.Context(), d, "", "", maxReferrers)
	if at, ok := s.repo.TagTarget(s.visit.Context(), oci.Tag(string(d.Algorithm())+"-"+d.Hex()+".att")); ok {
		entries = append(entries, oci.Descriptor{Digest: at, ArtifactType: "in-toto"})
	}
	for i := 0; i < len(entries) && err == nil; i++ {
		a := attachment{Digest: entries[i].Digest, Kind: imageinfo.KindOfEntry(&entries[i])}
		a.created, _ = time.Parse(time.RFC3339, entries[i].Annotations["org.opencontainers.image.created"])
		if imageinfo.MayScan(&entries[i]) {
			a.reports, err = s.reports(a.Digest)
		}
		list = append(list, a)
	}
	slices.SortStableFunc(list, func(a, b attachment) int { return b.created.Compare(a.created) })
	return list, err
}

// reports lists the last documents of a manifest, the newest first.
func (s *scans) reports(d oci.Digest) (list []oci.Descriptor, err error) {
	m, err := s.repo.Peek(s.visit.Context(), oci.Reference{Digest: d})
	if registry.IsLost(err) || err == nil && m.Size > minScanBytes {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if parsed, err := oci.ReadManifest(m.Bytes); err == nil {
		for _, l := range slices.Backward(parsed.Layers[max(0, len(parsed.Layers)-maxDocuments):]) {
			list = append(list, oci.Descriptor{Digest: oci.Digest(strings.Clone(string(l.Digest))), Size: l.Size})
		}
	}
	return list, nil
}

// find returns the newest report of each scanner, the worst first.
func (s *scans) find(attached []attachment) (list []scanned, err error) {
	seen := map[string]bool{"": true}
	for _, a := range attached {
		for i := range a.reports {
			r, err := s.read(&a.reports[i])
			if err != nil {
				return nil, err
			}
			if r == nil || seen[strings.ToLower(r.Scanner)] {
				continue
			}
			seen[strings.ToLower(r.Scanner)] = true
			list = append(list, scanned{r, a.created, a.Digest})
		}
	}
	slices.SortStableFunc(list, func(a, b scanned) int { return slices.Compare(b.Counts[:], a.Counts[:]) })
	return list, nil
}

// read reads a report, and remembers it. It returns nil if the document is none, isn't stored, or is too large for the page.
func (s *scans) read(d *oci.Descriptor) (*scanreport.Report, error) {
	key := string(s.repo.Name()) + "@" + string(d.Digest)
	if r, ok := s.web.reports.Get(key); ok || d.Size > min(s.left, scanreport.MaxReport) {
		return r, nil
	}
	s.left -= max(d.Size, minScanBytes)
	room, err := s.web.reserve(s.visit, scanreport.Room(d.Size))
	if err != nil {
		return nil, err
	}
	defer room.Release()
	content, err := s.repo.ReadBlob(s.visit.Context(), d.Digest, d.Size)
	if registry.IsLost(err) {
		return nil, nil //nolint:nilnil // documented
	} else if err != nil {
		return nil, err
	}
	r, err := scanreport.Read(content)
	if err != nil {
		r = nil
	} else {
		r.Scanner = imageinfo.Clip(r.Scanner)
	}
	s.web.reports.Put(key, r, 1)
	return r, nil
}
