// Package registry holds the rules of the registry: what a repository, an
// upload, a manifest and a tag are, in terms of bytes in a driver. It knows no
// HTTP and keeps no state that the tree on the storage does not hold: what it
// remembers (parsed manifests, listings, sizes) only saves work, and whether a
// thing exists is always asked of the storage.
//
// Errors are *oci.Error or oci.Errors. A fault of the storage is an *oci.Error
// with CodeUnknown whose Message says which kind, without a path, and whose
// Err is the cause for the log.
package registry

import (
	"context"
	"regexp"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/oci"
)

// DefaultMaxManifestSize is the largest manifest accepted unless Options says
// otherwise: the 4 MiB of distribution-spec "Pushing Manifests".
const DefaultMaxManifestSize = 4 << 20

// Options is what a Registry is made of.
type Options struct {
	Driver          driver.Driver
	Log             *zap.Logger
	DeleteEnabled   bool // manifests, tags and blobs may be deleted
	ReadOnly        bool // nothing may be written or deleted
	Validation      Validation
	ManifestCache   int64            // bytes of manifests kept in memory, 0 = 16 MiB
	MaxManifestSize int64            // bytes, 0 = DefaultMaxManifestSize
	Now             func() time.Time // nil = time.Now
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
}

// PlatformRule says which children of an index have to be there.
type PlatformRule int

// The rules; the zero value asks for every child.
const (
	PlatformsAll PlatformRule = iota
	PlatformsNone
	PlatformsListed // those whose platform is in Validation.PlatformList
)

// Registry is the whole registry.
type Registry struct {
	opts Options
}

// New makes a registry. It does no I/O and starts no goroutine.
func New(opts Options) *Registry { return &Registry{opts: opts} }

// Repository returns the repository of that name, which need not exist. It
// does no I/O.
func (r *Registry) Repository(name oci.Name) Repository { return Repository{reg: r, name: name} }

// Repository is a named set of manifests, tags and blobs.
type Repository struct {
	reg  *Registry
	name oci.Name
}

// Name is the repository's name.
func (r Repository) Name() oci.Name { return r.name }

// Check proves that the storage can be read and, if write is true, written.
func (r *Registry) Check(ctx context.Context, write bool) error {
	return r.opts.Driver.Check(ctx, write)
}
