package registry

import (
	"bytes"
	"context"
	"strings"

	"slipway/registry/internal/oci"
)

// Shared is a cache that several processes use. It may lose anything at any time, and
// what it returns is no more than a hint: anybody may have written it.
type Shared interface {
	// Get returns what was put under key, bounded in size and time.
	Get(ctx context.Context, key string) (content []byte, ok bool)
	// Put keeps content, which nobody changes. It does not wait.
	Put(key string, content []byte)
}

// unshared is the cache of a process that shares none.
type unshared struct{}

func (unshared) Get(context.Context, string) ([]byte, bool) { return nil, false }
func (unshared) Put(string, []byte)                         {}

// The keys say whose they are: distribution has others in the same Redis.
const (
	sharedManifest = "slipway:manifest:"
	sharedOrigins  = "slipway:origins:"
)

// share lets the other processes have the manifest.
func (r *Registry) share(m *Manifest) { r.opts.Shared.Put(sharedManifest+string(m.Digest), m.Bytes) }

// shownManifest is a manifest that another process has shared, compared with its
// digest, or nil. Its bytes are not known to be in the store.
func (r *Registry) shownManifest(ctx context.Context, d oci.Digest) *Manifest {
	body, ok := r.opts.Shared.Get(ctx, sharedManifest+string(d))
	if !ok {
		return nil
	}
	m, err := r.decode(d, body)
	if err != nil {
		return nil
	}
	m.seen.Store(0)
	return m
}

// shareOrigins lets the other processes know which repositories had the blob.
func (r *Registry) shareOrigins(d oci.Digest, names origins) {
	var b bytes.Buffer
	for _, n := range names {
		b.WriteString(string(n) + "\n")
	}
	r.opts.Shared.Put(sharedOrigins+string(d), b.Bytes())
}

// shownOrigins are repositories that had the blob, as another process says.
func (r *Registry) shownOrigins(ctx context.Context, d oci.Digest) (found origins) {
	text, _ := r.opts.Shared.Get(ctx, sharedOrigins+string(d))
	for line := range strings.Lines(string(text)) {
		name, err := oci.ParseName(strings.TrimSuffix(line, "\n"))
		if err == nil && len(found) < maxOrigins {
			found = append(found, name)
		}
	}
	return found
}
