package web

import (
	"maps"
	"net/http"
	"slices"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/web/imageinfo"
)

// side is one of two images that are compared.
type side struct {
	Tag      string
	Digest   oci.Digest
	Platform string
	Size     int64
	Layers   []imageinfo.Layer
	Config   *imageinfo.Config
}

// change is a setting that differs: "" is none.
type change struct{ Key, Before, After string }

type comparePage struct {
	frame
	Repository             oci.Name
	Platforms              []string // that both have
	Platform               string
	Before, After          side
	Removed, Added, Shared []imageinfo.Layer
	RemovedSize, AddedSize int64
	SharedSize             int64
	Changes                []change
	Left                   int // entries of lists that the page leaves out
}

func (web *Web) getCompare(w http.ResponseWriter, v *visit) error {
	repo, err := web.repository(v)
	if err != nil {
		return err
	}
	q := v.URL.Query()
	p := comparePage{frame: web.frame(v, "repositories", "Compare "+q.Get("a")+" and "+q.Get("b")), Repository: repo.Name(), Platform: q.Get("platform")}
	a, err := web.platforms(v, repo, q.Get("a"))
	if err != nil {
		return err
	}
	b, err := web.platforms(v, repo, q.Get("b"))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if _, both := b[name]; both {
			p.Platforms = append(p.Platforms, name)
		}
	}
	if len(p.Platforms) == 0 {
		return &refusal{http.StatusNotFound, "The two have no platform in common, or one of them is no image."}
	}
	if !slices.Contains(p.Platforms, p.Platform) {
		p.Platform = p.Platforms[0]
		if slices.Contains(p.Platforms, "linux/amd64") {
			p.Platform = "linux/amd64"
		}
	}
	room, err := web.reserve(v, imageinfo.Room(a[p.Platform].Size+b[p.Platform].Size, 0)+2*imageinfo.Room(0, imageinfo.MaxConfig))
	if err != nil {
		return err
	}
	defer room.Release()
	if p.Before, err = web.side(v, repo, q.Get("a"), a[p.Platform].Digest); err != nil {
		return err
	}
	if p.After, err = web.side(v, repo, q.Get("b"), b[p.Platform].Digest); err != nil {
		return err
	}
	p.compare()
	return web.show(w, room, "compare", p)
}

// platforms finds the images that a tag stands for, by platform: their digests and sizes.
func (web *Web) platforms(v *visit, repo registry.Repository, text string) (map[string]oci.Descriptor, error) {
	tag, err := oci.ParseTag(text)
	if err != nil {
		return nil, errHidden
	}
	m, room, err := web.peek(v, repo, oci.Reference{Tag: tag}, 0)
	if err != nil {
		return nil, err
	}
	defer room.Release()
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil {
		return nil, err
	}
	all := map[string]oci.Descriptor{}
	if !oci.IsIndex(m.MediaType) {
		if parsed.Config == nil {
			return all, nil
		}
		room.Shrink(imageinfo.Room(m.Size, parsed.Config.Size))
		c, err := web.images.Config(v.Context(), repo, parsed.Config, imageinfo.MaxConfig)
		if c != nil {
			all[c.Platform()] = oci.Descriptor{Digest: m.Digest, Size: m.Size}
		}
		return all, err
	}
	room.Shrink(imageinfo.Room(m.Size, 0))
	for i := range parsed.Manifests[:min(len(parsed.Manifests), imageinfo.MaxChildren)] {
		d := &parsed.Manifests[i]
		size, err := repo.PeekSize(v.Context(), d.Digest)
		if oci.IsUnknown(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if name := imageinfo.PlatformOf(d); name != "" {
			all[name] = oci.Descriptor{Digest: d.Digest, Size: size}
		}
	}
	return all, nil
}

func (web *Web) side(v *visit, repo registry.Repository, tag string, d oci.Digest) (side, error) {
	m, err := repo.Peek(v.Context(), oci.Reference{Digest: d})
	if err != nil {
		return side{}, err
	}
	s := side{Tag: tag, Digest: m.Digest, Size: m.Size}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil {
		return s, err
	}
	if parsed.Config != nil {
		if s.Config, err = web.images.Config(v.Context(), repo, parsed.Config, imageinfo.MaxConfig); err != nil {
			return s, err
		}
	}
	if s.Config == nil {
		s.Config = &imageinfo.Config{}
	}
	for _, part := range imageinfo.Contents(parsed) {
		s.Size += part.Size
	}
	s.Layers = imageinfo.LayersOf(parsed, s.Config)
	return s, nil
}

// compare finds what differs between the two sides.
func (p *comparePage) compare() {
	before, after := digests(p.Before.Layers), digests(p.After.Layers)
	for _, l := range p.Before.Layers {
		if after[l.Digest] {
			p.Shared, p.SharedSize = append(p.Shared, l), p.SharedSize+l.Size
		} else {
			p.Removed, p.RemovedSize = append(p.Removed, l), p.RemovedSize+l.Size
		}
	}
	for _, l := range p.After.Layers {
		if !before[l.Digest] {
			p.Added, p.AddedSize = append(p.Added, l), p.AddedSize+l.Size
		}
	}
	was, is := p.Before.Config.ByKey(), p.After.Config.ByKey()
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if was[key] != is[key] {
			p.Changes = append(p.Changes, change{key, was[key], is[key]})
		}
	}
	p.Removed, p.Added, p.Shared = shorten(p.Removed, &p.Left), shorten(p.Added, &p.Left), shorten(p.Shared, &p.Left)
	p.Changes = shorten(p.Changes, &p.Left)
}

func digests(layers []imageinfo.Layer) map[oci.Digest]bool {
	all := make(map[oci.Digest]bool, len(layers))
	for i := range layers {
		all[layers[i].Digest] = true
	}
	return all
}

// Difference returns the bytes by which the second image is larger.
func (p comparePage) Difference() int64 { return p.After.Size - p.Before.Size }
