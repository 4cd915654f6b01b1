package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
)

// Image selects tags to fetch ahead of time.
type Image struct {
	Repository oci.Name
	Tags       pattern.Tags // empty = latest
	Platforms  []string     // os/arch or os/arch/variant; none = all
}

// Progress is the state of a run.
type Progress struct {
	Image  string // repository:tag
	Blobs  int    // of the image that are stored
	All    int    // blobs of the image
	Bytes  int64  // fetched in the whole run
	Images int    // done
}

// SyncReport is the result of a run.
type SyncReport struct {
	Images int   `json:"images"`
	Blobs  int   `json:"blobs"` // fetched
	Bytes  int64 `json:"bytes"` // of them
	Failed int   `json:"failed"`
}

// Sync fetches images that the caches don't hold. It continues after a failure, and returns all
// of them. tell may be nil.
func (c *Registry) Sync(ctx context.Context, images []Image, tell func(Progress)) (SyncReport, error) {
	if tell == nil {
		tell = func(Progress) {}
	}
	run := &syncRun{cache: c, tell: tell}
	var problems []error
	for i := range images {
		if err := run.image(ctx, &images[i]); err != nil {
			problems = append(problems, err)
		}
		if ctx.Err() != nil {
			return run.report, ctx.Err()
		}
	}
	return run.report, errors.Join(problems...)
}

type syncRun struct {
	cache  *Registry
	tell   func(Progress)
	report SyncReport
	now    Progress
}

func (s *syncRun) image(ctx context.Context, image *Image) error {
	if !s.cache.Caches(image.Repository) {
		s.report.Failed++
		return fmt.Errorf("%s is not a cache of an upstream", image.Repository)
	}
	r := s.cache.Puller(image.Repository)
	tags, err := wanted(ctx, r, image)
	if err != nil {
		s.report.Failed++
		return fmt.Errorf("%s: %w", image.Repository, err)
	}
	var problems []error
	for _, tag := range tags {
		s.now.Image, s.now.Blobs, s.now.All = string(image.Repository)+":"+string(tag), 0, 0
		s.tell(s.now)
		if err := s.tag(ctx, r, tag, image.Platforms); err != nil {
			s.report.Failed++
			problems = append(problems, fmt.Errorf("%s: %w", s.now.Image, err))
			continue
		}
		s.report.Images++
		s.now.Images++
	}
	return errors.Join(problems...)
}

// wanted returns the tags to fetch.
func wanted(ctx context.Context, r registry.Puller, image *Image) ([]oci.Tag, error) {
	if image.Tags.Empty() {
		return []oci.Tag{"latest"}, nil
	}
	names, page, err := r.Tags(ctx, -1, "")
	if err != nil {
		return nil, err
	}
	var tags []oci.Tag
	for _, name := range names {
		if tag := oci.Tag(name); image.Tags.Match(tag) {
			tags = append(tags, tag)
		}
	}
	switch {
	case len(tags) == 0 && page.Warning != "": // the list is that of the cache
		return nil, stale(page.Warning)
	case len(tags) == 0:
		return nil, errors.New("no tag matches")
	}
	return tags, nil
}

// stale is the error for an answer from the cache: the text of its Warning header.
func stale(warning string) error {
	_, text, _ := strings.Cut(warning, `"`)
	return errors.New(strings.TrimSuffix(text, `"`))
}

func (s *syncRun) tag(ctx context.Context, r registry.Puller, tag oci.Tag, platforms []string) error {
	m, err := r.Manifest(ctx, oci.Reference{Tag: tag})
	if err != nil {
		return err
	}
	if m.Warning != "" {
		return stale(m.Warning)
	}
	w := &walk{repo: r, platforms: platforms, seen: map[oci.Digest]bool{}}
	if err := w.take(ctx, m, 0); err != nil {
		return err
	}
	slices.Sort(w.blobs)
	w.blobs = slices.Compact(w.blobs)
	s.now.All = len(w.blobs)
	for _, d := range w.blobs {
		if err := s.blob(ctx, r, d); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
		s.now.Blobs++
		s.tell(s.now)
	}
	return w.unlisted
}

// walk collects what belongs to an image: it fetches the manifests of its indexes and its
// referrers, and lists the blobs of all of them.
type walk struct {
	repo      registry.Puller
	platforms []string
	seen      map[oci.Digest]bool
	blobs     []oci.Digest
	unlisted  error // the first failure to list referrers; the image works without them
}

// describedImage is BuildKit's annotation of an attestation: the digest of the image that it is
// about. The platform of an attestation is unknown.
const describedImage = "vnd.docker.reference.digest"

// Bounds of an image.
const (
	maxManifests = 10_000
	maxDepth     = 8
)

// take adds a manifest, what it lists, and what refers to it.
func (w *walk) take(ctx context.Context, m *registry.Manifest, depth int) error {
	if w.seen[m.Digest] {
		return nil
	}
	w.seen[m.Digest] = true
	if len(w.seen) > maxManifests || depth > maxDepth {
		return fmt.Errorf("it has more than %d manifests, or they are nested deeper than %d", maxManifests, maxDepth)
	}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil {
		return err
	}
	chosen := map[string]bool{} // digests of the images that are wanted
	for i := range parsed.Manifests {
		if child := &parsed.Manifests[i]; matches(child.Platform, w.platforms) {
			chosen[string(child.Digest)] = true
		}
	}
	for i := range parsed.Manifests {
		switch child := &parsed.Manifests[i]; {
		case !oci.IsManifest(child.MediaType): // such as a layer in a cache of BuildKit
			w.blobs = append(w.blobs, child.Digest)
		case oci.IsIndex(child.MediaType), chosen[string(child.Digest)], chosen[child.Annotations[describedImage]]:
			if err := w.fetch(ctx, child.Digest, depth+1); err != nil {
				return err
			}
		}
	}
	if parsed.Config != nil {
		w.blobs = append(w.blobs, parsed.Config.Digest)
	}
	for i := range parsed.Layers {
		if l := &parsed.Layers[i]; !oci.NonDistributable(l.MediaType) || len(l.URLs) == 0 {
			w.blobs = append(w.blobs, l.Digest)
		}
	}
	if err := w.referrers(ctx, m.Digest, depth); err != nil && w.unlisted == nil {
		w.unlisted = err
	}
	return ctx.Err()
}

func (w *walk) fetch(ctx context.Context, d oci.Digest, depth int) error {
	m, err := w.repo.Manifest(ctx, oci.Reference{Digest: d})
	if err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	return w.take(ctx, m, depth)
}

func (w *walk) referrers(ctx context.Context, subject oci.Digest, depth int) error {
	for after := ""; ; {
		list, page, err := w.repo.Referrers(ctx, subject, "", after, 0)
		if err == nil && page.Warning != "" {
			err = stale(page.Warning)
		}
		if err != nil {
			return fmt.Errorf("referrers of %s: %w", subject, err)
		}
		for i := range list {
			if err := w.fetch(ctx, list[i].Digest, depth+1); err != nil {
				return err
			}
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}

// matches reports whether a platform is wanted. Without one it is wanted with all platforms
// only.
func matches(p *oci.Platform, platforms []string) bool {
	if len(platforms) == 0 {
		return true
	}
	if p == nil {
		return false
	}
	return slices.ContainsFunc(platforms, func(want string) bool {
		parts := strings.SplitN(want, "/", 3)
		return parts[0] == p.OS && parts[1] == p.Architecture && (len(parts) == 2 || parts[2] == p.Variant)
	})
}

// blob fetches a blob that isn't stored.
func (s *syncRun) blob(ctx context.Context, r registry.Puller, d oci.Digest) error {
	cached := s.cache.opts.Registry.Cached(r.Name())
	if _, err := cached.StatBlob(ctx, d); err == nil {
		return nil
	}
	b, err := r.OpenBlob(ctx, d)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }() // nothing was written
	n, err := io.Copy(io.Discard, b)
	if err != nil {
		return err
	}
	if err := s.cache.settled(ctx, blobKey{r.Name(), d}); err != nil {
		return err
	}
	if _, err := cached.StatBlob(ctx, d); err != nil {
		return fmt.Errorf("it could not be stored: %w", err)
	}
	s.report.Blobs++
	s.report.Bytes += n
	s.now.Bytes += n
	return nil
}
