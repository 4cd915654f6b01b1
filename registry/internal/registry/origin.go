package registry

import (
	"context"
	"strings"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/oci"
)

// origins remembers, of each blob, a few repositories that lately had it, newest first. They are
// hints where to look for it.
type origins struct {
	known  *cache.Cache[oci.Digest, []oci.Name]
	shared Shared
}

const (
	maxOrigins  = 4       // of a blob
	originCache = 8 << 10 // blobs
)

func newOrigins(shared Shared) *origins {
	return &origins{cache.New[oci.Digest, []oci.Name](originCache), shared}
}

// of returns repositories that had the blob, as this process or else another one says.
func (o *origins) of(ctx context.Context, d oci.Digest) (found []oci.Name) {
	if names, ok := o.known.Get(d); ok {
		return names
	}
	text, _ := o.shared.Get(ctx, originsKey+string(d))
	for line := range strings.Lines(string(text)) {
		name, err := oci.ParseName(strings.TrimSuffix(line, "\n"))
		if err == nil && len(found) < maxOrigins {
			found = append(found, name)
		}
	}
	return found
}

// add notes that the repository has the blob.
func (o *origins) add(d oci.Digest, name oci.Name) {
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
	o.shared.Put(originsKey+string(d), text)
}
