package index

import (
	"context"
	"crypto/md5" //nolint:gosec // what stores list, not a signature
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

const (
	// maxManifest bounds what is read of a manifest; nothing is known of a larger one.
	maxManifest = 4 << 20
	// maxConfig bounds what is read of an image's configuration, for its platform.
	maxConfig = 1 << 20
	// atOnce is how many requests a scan sends to a remote store at the same time.
	atOnce = 16
)

// scan is one reading of a repository.
type scan struct {
	*Index
	name      oci.Name
	revisions []oci.Digest
	layers    []oci.Digest
	listed    []listed
	before    map[oci.Tag]Tag
	sizes     map[oci.Digest]int64 // -1 = it doesn't exist
	manifests map[oci.Digest]manifest
	news      map[key]manifest
}

// listed is what a listing has of a tag.
type listed struct {
	tag          oci.Tag
	link, pushed storage.Info // Key "" = none
	index        []oci.Digest
}

// scan reads a repository: two listings, and of what they show only what wasn't read before.
func (x *Index) scan(ctx context.Context, name oci.Name) (*snapshot, error) {
	s := &scan{Index: x, name: name, before: map[oci.Tag]Tag{}, sizes: map[oci.Digest]int64{}, manifests: map[oci.Digest]manifest{}, news: map[key]manifest{}}
	now := time.Now()
	known, err := x.Tags(name, "", ByName)
	if err != nil {
		return nil, err
	}
	for _, t := range known {
		s.before[t.Name] = t
	}
	for _, step := range []func(context.Context) error{s.listManifests, s.listLayers, s.measure, s.readManifests} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	tags, err := s.tags(ctx)
	if err != nil {
		return nil, err
	}
	shot := &snapshot{name: name, read: now, tags: tags, manifests: len(s.revisions), contents: map[key]int64{}, news: s.news}
	for _, d := range slices.Concat(s.revisions, s.layers) {
		if size := s.sizes[d]; size >= 0 {
			shot.contents[keyOf(d)] = size
		}
	}
	return shot, nil
}

func (s *scan) listManifests(ctx context.Context) error {
	prefix := layout.Manifests(s.name)
	var now listed
	end := func() {
		if now.link.Key != "" {
			s.listed = append(s.listed, now)
		}
	}
	for info, err := range s.o.Store.List(ctx, prefix, storage.ListOptions{Flat: true}) {
		if err != nil {
			return err
		}
		rest := info.Key[len(prefix)+1:]
		if d, ok := layout.ParseRevisionLink(rest); ok {
			s.revisions = append(s.revisions, d)
			continue
		}
		rest, ok := strings.CutPrefix(rest, "tags/")
		name, rest, _ := strings.Cut(rest, "/")
		tag, err := oci.ParseTag(name)
		if !ok || err != nil {
			continue
		}
		if tag != now.tag {
			end()
			now = listed{tag: tag}
		}
		switch d, isIndex := layout.ParseTagIndex(rest); {
		case rest == layout.TagCurrentName:
			now.link = info
		case isIndex:
			now.index = append(now.index, d)
		case info.Key == layout.TagPushed(s.name, tag):
			now.pushed = info
		}
	}
	end()
	return nil
}

func (s *scan) listLayers(ctx context.Context) error {
	seen := map[oci.Digest]bool{}
	for link, err := range tree.ListLayers(ctx, s.o.Store, s.name) {
		if err != nil {
			return err
		}
		if link.Err == nil && !seen[link.Target] {
			seen[link.Target] = true
			s.layers = append(s.layers, link.Target)
		}
	}
	return nil
}

// each calls f for each of n, several at the same time where the store is remote, and returns the
// first error.
func (s *scan) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(1)
	if s.o.Remote {
		g.SetLimit(atOnce)
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return f(ctx, i) })
	}
	return g.Wait()
}

// measure finds the sizes of blobs and manifests. A digest fixes its size.
func (s *scan) measure(ctx context.Context) error {
	var unknown []oci.Digest
	for _, d := range slices.Concat(s.revisions, s.layers) {
		if size, ok := s.Size(d); ok && (s.existing == nil || s.existing[keyOf(d)]) {
			s.sizes[d] = size
		} else if _, twice := s.sizes[d]; !twice {
			s.sizes[d] = -1
			unknown = append(unknown, d)
		}
	}
	sizes := make([]int64, len(unknown))
	err := s.each(ctx, len(unknown), func(ctx context.Context, i int) error {
		info, err := s.o.Store.Stat(ctx, layout.BlobData(unknown[i]))
		if sizes[i] = info.Size; errors.Is(err, storage.ErrNotExist) {
			sizes[i], err = -1, nil
		}
		return err
	})
	for i, d := range unknown {
		s.sizes[d] = sizes[i]
	}
	return err
}

// readManifests reads those that weren't read before. One that can't be understood stays unknown.
func (s *scan) readManifests(ctx context.Context) error {
	var unknown []oci.Digest
	for _, d := range s.revisions {
		if m, ok := s.manifest(keyOf(d)); ok {
			s.manifests[d] = m
		} else if s.sizes[d] >= 0 {
			unknown = append(unknown, d)
		}
	}
	found := make([]*manifest, len(unknown))
	err := s.each(ctx, len(unknown), func(ctx context.Context, i int) (err error) {
		found[i], err = s.readManifest(ctx, unknown[i])
		return err
	})
	for i, d := range unknown {
		if found[i] != nil {
			s.manifests[d], s.news[keyOf(d)] = *found[i], *found[i]
		}
	}
	return err
}

// readManifest is nil for what is no manifest.
func (s *scan) readManifest(ctx context.Context, d oci.Digest) (*manifest, error) {
	parsed, _, err := tree.Manifest(ctx, s.o.Store, d, maxManifest)
	if err != nil {
		for _, harmless := range []error{storage.ErrNotExist, storage.ErrTooLarge, tree.ErrDamaged, tree.ErrNotManifest} {
			if errors.Is(err, harmless) {
				return nil, nil //nolint:nilnil // see above
			}
		}
		return nil, err
	}
	m := &manifest{MediaType: parsed.MediaType, ArtifactType: parsed.ArtifactType}
	if parsed.Subject != nil {
		m.Subject = parsed.Subject.Digest
	}
	for _, list := range [][]oci.Descriptor{parsed.Layers, parsed.Manifests} {
		for i := range list {
			m.Needs = append(m.Needs, list[i].Digest)
			if p := list[i].Platform; p != nil && p.OS != "unknown" {
				m.Platforms = appendNew(m.Platforms, platform(p))
			}
		}
	}
	if parsed.Config != nil {
		m.Needs = append(m.Needs, parsed.Config.Digest)
		m.Platforms, err = s.platformOf(ctx, parsed.Config)
	}
	return m, err
}

func platform(p *oci.Platform) string {
	text := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		text += "/" + p.Variant
	}
	return text[:min(len(text), 100)]
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// platformOf reads the platform in the configuration of an image.
func (s *scan) platformOf(ctx context.Context, config *oci.Descriptor) ([]string, error) {
	if !strings.HasSuffix(config.MediaType, ".image.config.v1+json") && config.MediaType != "application/vnd.docker.container.image.v1+json" {
		return nil, nil
	}
	if _, err := oci.ParseDigest(string(config.Digest)); err != nil {
		return nil, nil //nolint:nilerr // nothing has it
	}
	body, _, err := storage.Read(ctx, s.o.Store, layout.BlobData(config.Digest), maxConfig)
	if err != nil && !errors.Is(err, storage.ErrNotExist) && !errors.Is(err, storage.ErrTooLarge) {
		return nil, err
	}
	var p oci.Platform
	if json.Unmarshal(body, &p) == nil && p.OS != "" && p.Architecture != "" {
		return []string{platform(&p)}, nil
	}
	return nil, nil
}

// tags describes the tags that were listed.
func (s *scan) tags(ctx context.Context) ([]Tag, error) {
	referrers := map[oci.Digest]int{}
	for _, m := range s.manifests {
		referrers[m.Subject]++
	}
	all := make([]Tag, len(s.listed))
	err := s.each(ctx, len(s.listed), func(ctx context.Context, i int) (err error) {
		all[i], err = s.tag(ctx, &s.listed[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	pulls := s.currentPulls()
	for i := range all {
		t := &all[i]
		m := s.manifests[t.Digest]
		t.MediaType, t.ArtifactType, t.Platforms, t.Referrers = m.MediaType, m.ArtifactType, m.Platforms, referrers[t.Digest]
		t.Size = s.total(t.Digest)
		if pulls != nil {
			t.Pulled, _ = pulls.Of(s.name, t.Digest)
		}
		if t.Pulled.Unix() <= 0 {
			t.Pulled = time.Time{}
		}
	}
	return slices.DeleteFunc(all, func(t Tag) bool { return t.Digest == "" }), nil
}

// tag reads where a tag points and when it was pushed there, unless that is known. Its digest is ""
// if it holds none.
func (s *scan) tag(ctx context.Context, l *listed) (Tag, error) {
	t := Tag{Name: l.tag, LinkVersion: version(&l.link), PushedVersion: version(&l.pushed)}
	old := s.before[l.tag]
	same := old.LinkVersion == t.LinkVersion && t.LinkVersion != ""
	switch d := l.byHash(); {
	case same:
		t.Digest = old.Digest
	case d != "":
		t.Digest = d
	default:
		link, ok := tree.ReadLink(ctx, s.o.Store, l.link.Key, "")
		if !ok || errors.Is(link.Err, layout.ErrBadLink) || errors.Is(link.Err, layout.ErrEmptyLink) {
			return Tag{}, nil
		}
		if link.Err != nil {
			return Tag{}, link.Err
		}
		t.Digest = link.Target
	}
	if same && old.PushedVersion == t.PushedVersion && t.PushedVersion != "" {
		t.Pushed, t.By = old.Pushed, old.By
		return t, nil
	}
	t.Pushed = l.link.Modified.UTC()
	if l.pushed.Key == "" {
		return t, nil
	}
	pushes, err := tree.Pushes(ctx, s.o.Store, s.name, l.tag)
	if len(pushes) > 0 && pushes[0].Digest == t.Digest {
		t.Pushed, t.By = pushes[0].At, pushes[0].By
	}
	return t, err
}

// version is that of an object, as text; "" if it may change without another one.
func version(info *storage.Info) string {
	return base64.RawStdEncoding.EncodeToString([]byte(info.Version))
}

// byHash is what the link holds, if the listing has its hash and the tag's history names it.
func (l *listed) byHash() oci.Digest {
	if l.link.MD5 == "" {
		return ""
	}
	for _, d := range l.index {
		if sum := md5.Sum(layout.Link(d)); hex.EncodeToString(sum[:]) == l.link.MD5 { //nolint:gosec // see above
			return d
		}
	}
	return ""
}

// total is the size of a manifest and of all that it needs in the repository, each once.
func (s *scan) total(d oci.Digest) (n int64) {
	seen := map[oci.Digest]bool{}
	todo := []oci.Digest{d}
	for len(todo) > 0 {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[d] {
			continue
		}
		seen[d] = true
		n += max(s.sizes[d], 0)
		todo = append(todo, s.manifests[d].Needs...)
	}
	return n
}
