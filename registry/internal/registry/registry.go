// Package registry holds the rules of the registry: what a repository, an
// upload, a manifest and a tag are, in terms of bytes in a driver. It knows no
// HTTP and keeps no state that the tree on the storage does not hold: what it
// remembers (manifests by digest, listings, sizes) only saves work, and whether
// a thing exists is always asked of the storage.
//
// Errors are *oci.Error or oci.Errors. A fault of the storage is an *oci.Error
// with CodeUnknown whose Message says which kind, without a path, and whose
// Err is the cause for the log.
package registry

import (
	"context"
	"hash/maphash"
	"regexp"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pulls"
)

// DefaultMaxManifestSize is the largest manifest accepted unless Options says
// otherwise: the 4 MiB of distribution-spec "Pushing Manifests".
const DefaultMaxManifestSize = 4 << 20

// Bounds of what is remembered, in bytes of memory (about) or in entries.
const (
	defaultManifestCache = 8 << 20
	listingCache         = 8 << 20
	tagCache             = 4 << 20
	referrerCache        = 32 << 20 // a repository with more, some 300,000 manifests, has them read by each request
	sizeCache            = 16 << 10
	originCache          = 8 << 10
	progressCache        = 4 << 10
	pointerCache         = 8 << 10
	timeCache            = 16 << 10
)

// commitTimeout bounds a commit that goes on after its client has hung up.
const commitTimeout = 10 * time.Minute

// Options is what a Registry is made of.
type Options struct {
	Driver          driver.Driver
	Log             *zap.Logger // nil = none
	DeleteEnabled   bool        // manifests, tags and blobs may be deleted
	ReadOnly        bool        // nothing may be written or deleted
	Validation      Validation
	Immutable       []TagRule   // tags that are neither moved nor deleted
	Pulls           *pulls.Book // notes pulls, nil = nobody does; the caller closes it
	ManifestCache   int64       // bytes of manifests kept in memory, 0 = 8 MiB
	MaxManifestSize int64       // bytes, 0 = DefaultMaxManifestSize
	// PromiseAge is for how long a blob or manifest stays that a client was told
	// of, in so far as collectors of garbage are told the same age.
	PromiseAge time.Duration
	Now        func() time.Time // nil = time.Now
}

// Validation says what a pushed manifest may refer to.
type Validation struct {
	// Disabled leaves out the checks of URLs and of an index's children. Layers
	// and configs are always checked.
	Disabled bool
	// AllowURLs and DenyURLs judge the URLs of layers that lie elsewhere. Where
	// neither is set, any http and https URL is accepted.
	AllowURLs, DenyURLs []*regexp.Regexp
	// Platforms says which children of an index have to be there.
	Platforms PlatformRule
	// PlatformList is what PlatformsListed looks for.
	PlatformList []oci.Platform
	// Classes of manifests that may be pushed ("image", "plugin"); none = all.
	// An index has no class.
	Classes []string
}

// PlatformRule says which children of an index have to be there.
type PlatformRule int

// The rules; the zero value asks for every child.
const (
	PlatformsAll PlatformRule = iota
	PlatformsNone
	PlatformsListed // those whose platform is in Validation.PlatformList
)

// Registry is the whole registry. All methods are safe for concurrent use.
type Registry struct {
	driver          driver.Driver
	log             *zap.Logger
	now             func() time.Time
	deleteEnabled   bool
	readOnly        bool
	validation      Validation
	immutable       []TagRule
	pulls           *pulls.Book
	maxManifestSize int64

	manifests *cache[oci.Digest, *Manifest]
	listings  *cache[string, *listing]
	tags      *cache[oci.Name, *tagList]
	referrers *cache[oci.Name, *referrerIndex]
	sizes     *cache[oci.Digest, sizeNote]
	origins   *cache[oci.Digest, origins]
	pointers  *cache[string, pointer]
	targets   *cache[oci.Name, *targets]
	ownTimes  *cache[string, time.Time] // of manifests' links, see target.go
	proving   chan struct{}             // holds a token while a blob is re-read to prove it
	reading   chan struct{}             // holds a token for each large manifest that is being read
	uploads   *sessions

	promiseAge time.Duration
	promises   promises
	serving    serving
	crew       crew
	requests   requests
	recovering recovering

	seed  maphash.Seed
	locks [64]sync.RWMutex
}

// New makes a registry. It does no I/O and starts no goroutine.
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
	if o.ManifestCache <= 0 {
		o.ManifestCache = defaultManifestCache
	}
	return &Registry{
		driver: o.Driver, log: o.Log, now: o.Now,
		deleteEnabled: o.DeleteEnabled, readOnly: o.ReadOnly,
		validation: o.Validation, immutable: o.Immutable, pulls: o.Pulls, maxManifestSize: o.MaxManifestSize, promiseAge: o.PromiseAge,
		manifests: newCache[oci.Digest, *Manifest](o.ManifestCache),
		listings:  newCache[string, *listing](listingCache),
		tags:      newCache[oci.Name, *tagList](tagCache),
		referrers: newCache[oci.Name, *referrerIndex](referrerCache),
		sizes:     newCache[oci.Digest, sizeNote](sizeCache),
		origins:   newCache[oci.Digest, origins](originCache),
		pointers:  newCache[string, pointer](pointerCache),
		targets:   newCache[oci.Name, *targets](targetCache),
		ownTimes:  newCache[string, time.Time](timeCache),
		proving:   make(chan struct{}, 1),
		reading:   make(chan struct{}, 2),
		uploads:   newSessions(),
		serving:   serving{turn: make(chan struct{}, 1)},
		seed:      maphash.MakeSeed(),
	}
}

// Repository returns the repository of that name, which need not exist. It
// does no I/O.
func (r *Registry) Repository(name oci.Name) Repository { return Repository{reg: r, name: name} }

// Check proves that the storage can be read and, if write is true, written.
func (r *Registry) Check(ctx context.Context, write bool) error {
	if write && !r.readOnly {
		if err := r.announce(ctx); err != nil {
			return fault(err)
		}
	}
	return fault(r.driver.Check(ctx, write))
}

// commit makes the changes durable, though the client may hang up meanwhile.
func (r *Registry) commit(ctx context.Context, stages ...driver.Stage) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	return r.driver.Commit(ctx, stages...)
}
