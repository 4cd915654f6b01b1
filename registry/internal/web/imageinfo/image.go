// Package imageinfo reads what manifests and configurations say of images and other artifacts.
package imageinfo

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

const (
	maxWord      = 100       // bytes of a platform or a kind in a Summary
	maxChild     = 256 << 10 // bytes of a manifest that is read for the summary of its index
	maxSummaries = 16 << 10

	// Bytes of memory that reading takes for each byte of a document.
	manifestFactor, configFactor = 16, 48
)

// MaxConfig bounds the bytes of an image's configuration that is read.
const MaxConfig = 512 << 10

// Room is about how many bytes of memory a manifest and a configuration of these sizes take.
func Room(manifest, config int64) int64 {
	return manifestFactor*manifest + configFactor*min(config, MaxConfig)
}

// MaxChildren bounds the entries of an index that are looked into.
const MaxChildren = 64

// Reader reads what manifests say of images. Summaries are remembered: a digest fixes them.
type Reader struct {
	summaries *cache.Cache[summaryKey, *Summary]
}

type summaryKey struct {
	name   oci.Name
	digest oci.Digest
}

// NewReader makes a reader of images.
func NewReader() *Reader {
	return &Reader{cache.New[summaryKey, *Summary](maxSummaries)}
}

// Summary describes an image in a list.
type Summary struct {
	Kind      string // "image", "index", or what the artifact is
	Platforms []string
	Size      int64 // of all that the manifest refers to, and itself
	Created   time.Time
}

// Known returns the remembered result of Summarize for a manifest, or nil.
func (x *Reader) Known(name oci.Name, d oci.Digest) *Summary {
	s, _ := x.summaries.Get(summaryKey{name, d})
	return s
}

// Summarize describes a manifest of a repository. The caller has room for the manifest and a
// configuration of MaxConfig, which is shrunk to what is needed.
func (x *Reader) Summarize(ctx context.Context, repo registry.Repository, m *registry.Manifest, shrink func(int64)) (*Summary, error) {
	key := summaryKey{repo.Name(), m.Digest}
	if s, ok := x.summaries.Get(key); ok {
		return s, nil
	}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil {
		return nil, err
	}
	s := &Summary{Kind: Clip(kindOfManifest(parsed)), Size: m.Size}
	for _, d := range Contents(parsed) {
		s.Size += d.Size
	}
	if oci.IsIndex(m.MediaType) {
		s.Kind = "index"
		shrink(Room(m.Size, 0) + Room(maxChild, maxChild))
		err = x.addChildren(ctx, repo, s, parsed)
	} else if parsed.Config != nil && IsConfig(parsed.Config.MediaType) {
		var c *Config
		shrink(Room(m.Size, parsed.Config.Size))
		if c, err = x.Config(ctx, repo, parsed.Config, MaxConfig); err == nil && c != nil {
			s.Created = c.Created
			if p := c.Platform(); p != "" {
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
func (x *Reader) addChildren(ctx context.Context, repo registry.Repository, s *Summary, index *oci.Manifest) error {
	seen := map[oci.Digest]bool{}
	for i := range index.Manifests {
		d := &index.Manifests[i]
		if s.Size += d.Size; i >= MaxChildren {
			continue
		}
		if p := PlatformOf(d); p != "" && !slices.Contains(s.Platforms, p) {
			s.Platforms = append(s.Platforms, p)
		}
		if d.Size > maxChild {
			continue
		}
		child, err := repo.Peek(ctx, oci.Reference{Digest: d.Digest})
		if registry.IsLost(err) {
			continue
		}
		if err != nil {
			return err
		}
		if child.Size > maxChild {
			continue
		}
		parsed, err := oci.ReadManifest(child.Bytes)
		if err != nil {
			continue
		}
		for _, part := range Contents(parsed) {
			if !seen[part.Digest] {
				seen[part.Digest] = true
				s.Size += part.Size
			}
		}
		if s.Created.IsZero() && parsed.Config != nil && IsConfig(parsed.Config.MediaType) {
			c, err := x.Config(ctx, repo, parsed.Config, maxChild)
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

// Contents are the blobs of a manifest.
func Contents(m *oci.Manifest) []oci.Descriptor {
	list := slices.Clone(m.Layers)
	if m.Config != nil {
		list = append(list, *m.Config)
	}
	return list
}

// attestationType marks an entry of an index that describes another one.
const attestationType = "vnd.docker.reference.type"

// PlatformOf is the platform of an entry of an index, "" if it has none.
func PlatformOf(d *oci.Descriptor) string {
	if d.Platform == nil || d.Platform.OS == "unknown" || d.Annotations[attestationType] != "" {
		return ""
	}
	return platformText(d.Platform)
}

func platformText(p *oci.Platform) string {
	text := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		text += "/" + p.Variant
	}
	return Clip(strings.Trim(text, "/"))
}

// Clip bounds what is remembered of a word that a client may make as long as its document.
func Clip(word string) string {
	if len(word) <= maxWord {
		return word
	}
	return strings.ToValidUTF8(strings.Clone(word[:maxWord]), "") + "…"
}

// Config reads the configuration of an image; nil if the repository doesn't have it, it can't be
// understood, or is larger than most or than its manifest says.
func (x *Reader) Config(ctx context.Context, repo registry.Repository, d *oci.Descriptor, most int64) (*Config, error) {
	content, err := repo.ReadBlob(ctx, d.Digest, min(most, d.Size))
	if registry.IsLost(err) {
		return nil, nil //nolint:nilnil // there is none to show
	}
	if content == nil || err != nil {
		return nil, err
	}
	var c Config
	if json.Unmarshal(content, &c) != nil {
		return nil, nil //nolint:nilnil,nilerr // there is none to show
	}
	return &c, nil
}
