// Package registry holds the rules of the registry: what a repository, an
// upload, a manifest and a tag are, in terms of objects in a store. It knows no
// HTTP and keeps no state that the store does not hold: what it remembers
// (manifests by digest, listings, sizes) only saves work. Whether a repository has a thing is
// asked of the store each time; only the bytes behind a link are trusted for a second
// (bytesTrusted).
//
// Registry makes repositories, and Repository has a method for each thing that a client does.
// What it relies on it renews in an attempt, so that no garbage collection deletes it meanwhile.
// Parts that need no rules are packages of their own: tags, referrers.
//
// An error that the client caused is an *oci.Error or oci.Errors. Other errors are those of the
// store; [Fault] converts them to errors that a client may see.
package registry

import (
	"context"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/quota"
	"slipway/registry/internal/registry/referrers"
	"slipway/registry/internal/registry/tags"
	"slipway/registry/internal/registry/validation"
	"slipway/registry/internal/storage"
)

// DefaultMaxManifestSize is the largest manifest accepted unless Options says
// otherwise: the 4 MiB of distribution-spec "Pushing Manifests".
const DefaultMaxManifestSize = 4 << 20

// Bounds of what is remembered.
const (
	manifestCache  = 8 << 20 // bytes of memory, about
	blobCache      = 8 << 10 // blobs
	doubtedCache   = 4 << 10 // blobs
	unwrittenCache = 4 << 10 // uploads
)

// doubt is the time in which a client pushes a manifest again that was refused for the size of a blob.
const doubt = 5 * time.Minute

// Options configures a Registry.
type Options struct {
	Store         storage.Store
	Log           *zap.Logger   // nil = no logging
	DeleteEnabled bool          // manifests, tags and blobs may be deleted
	KeepDeleted   time.Duration // how long a deletion can be undone, 0 = it can't
	ReadOnly      bool          // nothing may be written or deleted
	IndexParents  bool          // [Repository.Parents] is used
	Validation    validation.Rules
	Immutable     []TagRule                  // tags that are neither moved nor deleted
	Signer        BlobURLs                   // gives URLs for blobs; nil = clients get them from here
	Pulled        func(oci.Name, oci.Digest) // called for each pull of a manifest, must not block; nil = no callback
	// Changed is called once tags of a repository were set or may have been removed, or a manifest was pushed or
	// removed, or, with neither, the whole repository. The request waits for it. nil = no callback.
	Changed         func(oci.Name, oci.Digest, []oci.Tag)
	ManifestCache   int64          // bytes of manifests kept in memory, 0 = 8 MiB
	Quota           *quota.Quotas  // bounds the bytes of repositories; nil = unlimited
	Looked          func(hit bool) // called for each lookup of a manifest in memory; nil = no callback
	MaxManifestSize int64          // bytes, 0 = DefaultMaxManifestSize
	// Remote says that the store is reached by a network: independent requests are sent at
	// the same time, and listings take the place of many requests.
	Remote bool
	Now    func() time.Time // nil = time.Now
}

// BlobURLs gives clients URLs by which they read blobs from elsewhere.
type BlobURLs interface {
	// SignedURL returns a URL by which a client reads the object at key for some minutes: a
	// secret. The zero address is an unknown client. It does not check that the object
	// exists.
	SignedURL(ctx context.Context, key, contentType string, client netip.Addr) (string, error)
}

// Registry is the whole registry. All methods are safe for concurrent use.
type Registry struct {
	opts            Options
	store           *tree.Store
	tags            *tags.Index
	referrers       *referrers.Index
	holders         holders
	unwritten       *cache.Cache[string, struct{}] // uploads begun by this process that have no bytes yet
	log             *zap.Logger
	now             func() time.Time
	maxManifestSize int64

	// The caches are an optimization; correctness never depends on them.
	manifests *cache.Cache[oci.Digest, *Manifest]
	blobs     *cache.Cache[oci.Digest, seenBytes]
	doubted   *cache.Cache[string, seenBytes] // blobs to which a refused manifest gave another size, by link

	reading chan struct{} // holds a token for each large manifest that is being read
}

// New returns a registry. It does no I/O and starts no goroutine.
func New(o Options) *Registry {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxManifestSize <= 0 {
		o.MaxManifestSize = DefaultMaxManifestSize
	}
	if o.Looked == nil {
		o.Looked = func(bool) {}
	}
	if o.Pulled == nil {
		o.Pulled = func(oci.Name, oci.Digest) {}
	}
	if o.Changed == nil {
		o.Changed = func(oci.Name, oci.Digest, []oci.Tag) {}
	}
	if o.ManifestCache <= 0 {
		o.ManifestCache = manifestCache
	}
	store := tree.NewStore(o.Store, o.Remote)
	r := &Registry{
		opts: o, store: store, log: o.Log, now: o.Now, maxManifestSize: o.MaxManifestSize,
		tags:      tags.New(store),
		holders:   holders{live: map[string]*Upload{}},
		unwritten: cache.New[string, struct{}](unwrittenCache),
		doubted:   cache.New[string, seenBytes](doubtedCache),
		manifests: cache.New[oci.Digest, *Manifest](o.ManifestCache),
		blobs:     cache.New[oci.Digest, seenBytes](blobCache),
		reading:   make(chan struct{}, 2),
	}
	r.referrers = referrers.New(store, r.linksOf)
	return r
}

// Check proves that the store can be read and, if write is true, written.
func (r *Registry) Check(ctx context.Context, write bool) error {
	return storage.Check(ctx, r.store, layout.Own+"/check", write && !r.opts.ReadOnly)
}

// CountQuotas recounts the bytes that quotas bound, such as after a collection. Failures are logged.
func (r *Registry) CountQuotas(ctx context.Context) { r.opts.Quota.Count(ctx) }
