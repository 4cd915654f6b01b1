// Package proxy is a pull-through cache: it wraps the rules so that some repositories are
// caches of repositories at upstream registries. It decides which upstream a repository
// belongs to, what is fresh enough, what clients get when an upstream fails, and what leaves
// the cache.
//
// Cached content is stored as if it had been pushed. Everything else the package
// keeps may be lost.
package proxy

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
)

// Options configures a Registry.
type Options struct {
	Registry *registry.Registry // what is stored; nil if only names are asked for
	Sources  []*Source
	// Local selects repositories that belong to no upstream although one has the empty
	// prefix.
	Local pattern.Names
	// Spool is the directory for blobs that are being fetched, "" that of the system for
	// temporary files, and SpoolMax their bytes; 0 = 16 GiB. Blobs beyond that aren't cached.
	Spool    string
	SpoolMax int64
	// CommitTimeout bounds the time for storing a blob that was fetched; 0 = 5 minutes.
	CommitTimeout time.Duration
	// Resume bounds the time for which a blob is resumed while its upstream fails; 0 = 1 minute.
	Resume time.Duration
	// Unknown is the time for which an upstream isn't asked again for content that it didn't have; 0 = 10 s.
	Unknown time.Duration
	// Patience is the time that a client waits for the check of a tag that is stored; 0 = 3 s.
	Patience time.Duration
	Pulled   func(oci.Name, oci.Digest) // records pulls of manifests that had to be fetched; nil = nothing does
	Log      *zap.Logger                // nil = none
	Metrics  *Metrics                   // nil = unregistered ones
	Now      func() time.Time           // nil = time.Now
}

// Registry wraps a registry.Registry with caches of upstreams. Methods are safe for concurrent
// use.
type Registry struct {
	opts    Options
	now     func() time.Time
	ctx     context.Context // for work that continues when its client has left
	stop    context.CancelFunc
	work    sync.WaitGroup
	spool   *spool
	checked *cache.Cache[tagKey, time.Time]
	unknown *cache.Cache[any, time.Time] // until when the upstream isn't asked again
	lists   *cache.Cache[any, listed]
	origins *cache.Cache[origin, oci.Name] // repositories that lately got a blob

	manifests cache.Group[*registry.Manifest]
	sizes     cache.Group[int64]
	listing   cache.Group[listed]

	mu        sync.Mutex
	transfers map[blobKey]*transfer
	size      size
}

type tagKey struct {
	name oci.Name
	tag  oci.Tag
}

func (k tagKey) String() string { return string(k.name) + ":" + string(k.tag) }

type manifestKey struct {
	name   oci.Name
	digest oci.Digest
}

func (k manifestKey) String() string { return string(k.name) + "@" + string(k.digest) }

type blobKey struct {
	name   oci.Name
	digest oci.Digest
}

func (k blobKey) String() string { return string(k.name) + "@" + string(k.digest) }

// origin identifies a blob of an upstream, whichever repositories have it.
type origin struct {
	source *Source
	digest oci.Digest
}

// Bounds of memory: entries, and bytes of lists (estimated).
const (
	maxRemembered = 50_000
	maxLists      = 32 << 20
)

// once runs work once for all concurrent callers with the key. It continues when they leave.
func once[V any](ctx context.Context, c *Registry, g *cache.Group[V], key string, work func() (V, error)) (V, error) {
	return g.Do(ctx, key, func() (V, error) {
		c.work.Add(1)
		defer c.work.Done()
		return work()
	})
}

// New makes a Registry. It does no I/O.
func New(o Options) *Registry {
	o.SpoolMax = cmp.Or(o.SpoolMax, 16<<30)
	o.CommitTimeout = cmp.Or(o.CommitTimeout, 5*time.Minute)
	o.Resume = cmp.Or(o.Resume, time.Minute)
	o.Unknown = cmp.Or(o.Unknown, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 3*time.Second)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Registry{
		opts: o, now: o.Now, spool: newSpool(o.Spool, o.SpoolMax), transfers: map[blobKey]*transfer{},
		checked: cache.New[tagKey, time.Time](maxRemembered), unknown: cache.New[any, time.Time](maxRemembered), lists: cache.New[any, listed](maxLists),
		origins: cache.New[origin, oci.Name](maxRemembered),
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	for _, s := range o.Sources {
		s.cache = c
		s.metrics = o.Metrics.of(s.Name)
	}
	return c
}

// Close ends all transfers and checks in progress.
func (c *Registry) Close() {
	c.stop()
	c.work.Wait()
	for _, s := range c.opts.Sources {
		s.Client.Close()
	}
}

// Sources returns the upstreams.
func (c *Registry) Sources() []*Source { return c.opts.Sources }

// Caches reports whether the repository is a cache.
func (c *Registry) Caches(name oci.Name) bool { return c.source(name) != nil }

// Sent counts bytes of a manifest or a blob that a client got.
func (c *Registry) Sent(name oci.Name, blob bool, n int64) {
	if s := c.source(name); s != nil {
		s.metrics.pushed.WithLabelValues(s.Name, kind(blob)).Add(float64(n))
	}
}

// Twin returns the other name of a repository that has two: hub/alpine is hub/library/alpine
// where hub stands for Docker Hub. It returns "" for all others.
func (c *Registry) Twin(name oci.Name) oci.Name {
	s := c.source(name)
	if s == nil {
		return ""
	}
	if twin := s.twin(name); c.source(twin) == s {
		return twin
	}
	return ""
}

// Within returns the repository here for a name in the namespace of a registry, such as
// docker.io; own reports whether that is this registry. It fails with NAME_UNKNOWN unless an
// upstream stands for the namespace: answering from elsewhere would pass one registry's image
// off as another's.
//
// Clients name hub/library/alpine in docker.io if they know this registry as mirror/v2/hub. So
// a name with the upstream's prefix is a name here. literal is then what the name means if it
// is unknown, and "" otherwise.
func (c *Registry) Within(namespace string, own bool, name oci.Name) (here, literal oci.Name, err error) {
	s := c.standsFor(namespace)
	switch {
	case s == nil && own:
		return name, "", nil
	case s == nil:
		return "", "", notWithin(namespace, name, "no upstream of this registry stands for the namespace")
	}
	literal, err = s.local(name)
	if err == nil && c.source(literal) != s { // the name belongs to another upstream, or is local
		literal, err = "", notWithin(namespace, name, "the name belongs to another registry here")
	}
	if s.Prefix != "" && c.source(name) == s {
		return name, literal, nil
	}
	return literal, "", err
}

// standsFor returns the upstream that stands for a namespace, nil for none. What is configured
// counts more than the host of an upstream.
func (c *Registry) standsFor(namespace string) *Source {
	namespace = canonical(namespace)
	for _, s := range c.opts.Sources {
		if slices.ContainsFunc(s.Namespaces, func(n string) bool { return canonical(n) == namespace }) {
			return s
		}
	}
	for _, s := range c.opts.Sources {
		if canonical(s.Client.URL().Host) == namespace {
			return s
		}
	}
	return nil
}

// canonical returns one spelling of a registry's host.
func canonical(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ":443")
	if host == "registry-1.docker.io" || host == "index.docker.io" {
		return "docker.io"
	}
	return host
}

func notWithin(namespace string, name oci.Name, message string) error {
	return &oci.Error{Code: oci.CodeNameUnknown, Message: message, Detail: map[string]string{"name": string(name), "ns": namespace}}
}

// source returns the upstream of a repository, nil for local ones. The longest prefix wins.
func (c *Registry) source(name oci.Name) (found *Source) {
	for _, s := range c.opts.Sources {
		if s.has(name) && (found == nil || len(s.Prefix) > len(found.Prefix)) {
			found = s
		}
	}
	if found != nil && found.Prefix == "" && c.opts.Local.Match(name) {
		return nil
	}
	return found
}
