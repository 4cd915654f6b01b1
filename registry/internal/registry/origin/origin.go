// Package origin remembers which repositories lately had a blob.
package origin

import (
	"context"
	"strings"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/oci"
)

// Origins remembers, of each blob, a few repositories that lately had it, newest first. They are
// hints where to look for it.
type Origins struct {
	known  *cache.Cache[oci.Digest, []oci.Name]
	shared cache.Shared
}

const (
	maxOrigins  = 4       // of a blob
	originCache = 8 << 10 // blobs

	// sharedKey begins the keys of origins: distribution has others in the same Redis.
	sharedKey = "slipway:origins:"
)

// New makes empty origins beside those that other processes share.
func New(shared cache.Shared) *Origins {
	return &Origins{cache.New[oci.Digest, []oci.Name](originCache), shared}
}

// Of returns repositories that had the blob, as this process or else another one says.
func (o *Origins) Of(ctx context.Context, d oci.Digest) (found []oci.Name) {
	if names, ok := o.known.Get(d); ok {
		return names
	}
	text, _ := o.shared.Get(ctx, sharedKey+string(d))
	for line := range strings.Lines(string(text)) {
		name, err := oci.ParseName(strings.TrimSuffix(line, "\n"))
		if err == nil && len(found) < maxOrigins {
			found = append(found, name)
		}
	}
	return found
}

// Add notes that the repository has the blob.
func (o *Origins) Add(d oci.Digest, name oci.Name) {
	names := []oci.Name{oci.Name(strings.Clone(string(name)))}
	before, _ := o.known.Get(d)
	for _, n := range before {
		if n != name && len(names) < maxOrigins {
			names = append(names, n)
		}
	}
	text := make([]byte, 0, 128)
	for _, n := range names {
		text = append(append(text, n...), '\n')
	}
	o.known.Put(oci.Digest(strings.Clone(string(d))), names, 1)
	o.shared.Put(sharedKey+string(d), text)
}
