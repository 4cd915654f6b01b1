// Package pageindex caches the counts, sizes and dates that pages show of repositories, so that a view needs
// no scan. The cache is in memory, filled from the tree once lists are viewed and revalidated in the
// background; it never decides what exists.
package pageindex

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Options configures an index.
type Options struct {
	Store    storage.Store
	Remote   bool          // the store is reached by a network
	Interval time.Duration // between two passes over all repositories
	// Pulls returns when manifests were last pulled. Nil = unknown.
	Pulls func(context.Context) (Pulls, error)
	Log   *zap.Logger
}

// Pulls tells when a manifest was last pulled.
type Pulls interface {
	Of(name oci.Name, d oci.Digest) (time.Time, bool)
}

// Index is safe for concurrent use.
type Index struct {
	o    Options
	seed maphash.Seed
	wake chan struct{} // holds a token when something was touched

	// Only the goroutine of Run uses these.
	checked  time.Time     // when a pass last found out which blobs exist
	existing map[key]int64 // during such a pass, the sizes of those that existed when it began
	pulls    Pulls

	mu       sync.Mutex
	contents contents
	complete time.Time // when the last pass over all repositories ended
	wanted   bool      // since the last pass
	begun    bool      // a pass has begun: touches matter
	tried    time.Time // when the last pass began
	touched  map[oci.Name]bool
	rest     map[oci.Name]time.Time // before which a repository isn't scanned again
}

// New returns an empty index. It does no I/O.
func New(o Options) *Index {
	return &Index{
		o: o, seed: maphash.MakeSeed(), wake: make(chan struct{}, 1), touched: map[oci.Name]bool{}, rest: map[oci.Name]time.Time{},
		contents: contents{repositories: map[oci.Name]*record{}, byID: map[uint32]*record{}, blobs: map[key]blob{}},
	}
}

// Complete returns when the last pass over all repositories ended, the zero time if none has.
func (x *Index) Complete() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.complete
}

// Want records that lists of repositories are being viewed: without that there is no pass over the
// storage. It reports whether all repositories were read once, so that lists are whole. A nil *Index
// reports false.
func (x *Index) Want() (whole bool) {
	if x == nil {
		return false
	}
	x.mu.Lock()
	x.wanted, whole = true, !x.complete.IsZero()
	x.mu.Unlock()
	x.awake()
	return whole
}

// Touch schedules a repository to be read again soon, because it was changed or is being viewed. It
// doesn't block. Before any list is viewed it does nothing, and so does a nil *Index.
func (x *Index) Touch(name oci.Name) {
	if x == nil {
		return
	}
	x.mu.Lock()
	begun := x.begun
	if begun {
		x.touched[name] = true
	}
	x.mu.Unlock()
	if begun {
		x.awake()
	}
}

// awake has Run look at what is to do.
func (x *Index) awake() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}
