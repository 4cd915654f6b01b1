package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

const (
	maxConfig    = 1 << 20 // bytes of an image's configuration that are read; in memory it is 30 times as large
	maxWord      = 100     // bytes of a platform or a kind in a summary
	maxChildren  = 64      // of an index that are looked into
	maxSummaries = 16 << 10
)

// images reads what manifests say of images. Summaries are remembered: a digest fixes them.
type images struct {
	registry  *registry.Registry
	summaries *cache.Cache[summaryKey, *summary]
}

type summaryKey struct {
	name   oci.Name
	digest oci.Digest
}

func newImages(r *registry.Registry) *images {
	return &images{registry: r, summaries: cache.New[summaryKey, *summary](maxSummaries)}
}

// summary is what a list says of an image.
type summary struct {
	Kind      string // "image", "index", or what the artifact is
	Platforms []string
	Size      int64 // of all that the manifest refers to, and itself
	Created   time.Time
}

// summarize describes a manifest of a repository.
func (x *images) summarize(ctx context.Context, repo registry.Repository, m *registry.Manifest) (*summary, error) {
	key := summaryKey{repo.Name(), m.Digest}
	if s, ok := x.summaries.Get(key); ok {
		return s, nil
	}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil {
		return nil, err
	}
	s := &summary{Kind: "image", Size: m.Size}
	if parsed.Config != nil && !isImageConfig(parsed.Config.MediaType) {
		s.Kind = clip(kindOf(parsed.ArtifactType))
	}
	for _, d := range contents(parsed) {
		s.Size += d.Size
	}
	if oci.IsIndex(m.MediaType) {
		s.Kind = "index"
		err = x.addChildren(ctx, repo, s, parsed)
	} else if parsed.Config != nil && isImageConfig(parsed.Config.MediaType) {
		var c *config
		if c, err = x.config(ctx, repo, parsed.Config.Digest); err == nil && c != nil {
			s.Created = c.Created
			if p := c.platform().String(); p != "" {
				s.Platforms = append(s.Platforms, p)
			}
		}
	}
	if err == nil {
		x.summaries.Put(key, s, 1)
	}
	return s, err
}

// addChildren adds what is in an index. What the repository doesn't have counts with its manifest only.
func (x *images) addChildren(ctx context.Context, repo registry.Repository, s *summary, index *oci.Manifest) error {
	seen := map[oci.Digest]bool{}
	for i := range index.Manifests {
		d := &index.Manifests[i]
		if s.Size += d.Size; i >= maxChildren {
			continue
		}
		if p := platformOf(d); p != "" && !slices.Contains(s.Platforms, p) {
			s.Platforms = append(s.Platforms, p)
		}
		child, err := repo.Peek(ctx, oci.Reference{Digest: d.Digest})
		if isUnknown(err) || errors.Is(err, registry.ErrDamaged) {
			continue
		}
		if err != nil {
			return err
		}
		parsed, err := oci.ReadManifest(child.Bytes)
		if err != nil {
			continue
		}
		for _, part := range contents(parsed) {
			if !seen[part.Digest] {
				seen[part.Digest] = true
				s.Size += part.Size
			}
		}
		if s.Created.IsZero() && parsed.Config != nil && isImageConfig(parsed.Config.MediaType) {
			c, err := x.config(ctx, repo, parsed.Config.Digest)
			if err != nil {
				return err
			}
			if c != nil {
				s.Created = c.Created
			}
		}
	}
	return nil
}

// contents are the blobs of a manifest.
func contents(m *oci.Manifest) []oci.Descriptor {
	list := slices.Clone(m.Layers)
	if m.Config != nil {
		list = append(list, *m.Config)
	}
	return list
}

// attestationType marks an entry of an index that describes another one.
const attestationType = "vnd.docker.reference.type"

// platformOf is the platform of an entry of an index, "" if it has none.
func platformOf(d *oci.Descriptor) string {
	if d.Platform == nil || d.Platform.OS == "unknown" || d.Annotations[attestationType] != "" {
		return ""
	}
	return platform(*d.Platform).String()
}

type platform oci.Platform

func (p platform) String() string {
	text := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		text += "/" + p.Variant
	}
	return clip(strings.Trim(text, "/"))
}

// clip bounds what a summary remembers of a word that an image may make as long as its manifest.
func clip(word string) string {
	if len(word) <= maxWord {
		return word
	}
	return strings.ToValidUTF8(strings.Clone(word[:maxWord]), "") + "…"
}

// config is the part of an image's configuration that the pages show.
type config struct {
	Created      time.Time `json:"created"`
	Author       string    `json:"author"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Variant      string    `json:"variant"`
	Config       struct {
		User         string              `json:"User"`
		ExposedPorts map[string]struct{} `json:"ExposedPorts"`
		Env          []string            `json:"Env"`
		Entrypoint   []string            `json:"Entrypoint"`
		Cmd          []string            `json:"Cmd"`
		Volumes      map[string]struct{} `json:"Volumes"`
		WorkingDir   string              `json:"WorkingDir"`
		Labels       map[string]string   `json:"Labels"`
		StopSignal   string              `json:"StopSignal"`
	} `json:"config"`
	History []struct {
		Created    time.Time `json:"created"`
		CreatedBy  string    `json:"created_by"`
		Comment    string    `json:"comment"`
		EmptyLayer bool      `json:"empty_layer"`
	} `json:"history"`
}

func (c *config) platform() platform {
	return platform{OS: c.OS, Architecture: c.Architecture, Variant: c.Variant}
}

func isImageConfig(mediaType string) bool {
	return mediaType == "application/vnd.oci.image.config.v1+json" || mediaType == "application/vnd.docker.container.image.v1+json"
}

// config reads the configuration of an image; nil if the repository doesn't have it, or it
// can't be understood.
func (x *images) config(ctx context.Context, repo registry.Repository, d oci.Digest) (*config, error) {
	blob, err := repo.OpenBlob(ctx, d)
	if isUnknown(err) || errors.Is(err, registry.ErrDamaged) {
		return nil, nil //nolint:nilnil // there is none to show
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }() // read only
	if blob.Size() > maxConfig {
		return nil, nil //nolint:nilnil // as above
	}
	content, err := io.ReadAll(io.LimitReader(blob, maxConfig))
	if err != nil {
		return nil, err
	}
	var c config
	if json.Unmarshal(content, &c) != nil {
		return nil, nil //nolint:nilnil // as above
	}
	return &c, nil
}
