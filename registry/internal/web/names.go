package web

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pageindex"
	"slipway/registry/internal/registry"
)

const (
	namesFresh   = 3 * time.Second
	namesShare   = 10                    // times as long as reading the names took, they count as fresh
	namesWait    = 40 * time.Millisecond // a page waits for names when there are older ones
	namesTimeout = 10 * time.Minute
	maxNames     = 200_000 // repositories that the pages list
)

// names remembers the names of all repositories, which each page of a list needs, and reads them
// again in the background. What it lists may be a view old, so pages of repositories ask the rules.
type names struct {
	registry *registry.Registry
	index    *pageindex.Index // nil = none
	log      *zap.Logger

	mu      sync.Mutex
	all     []oci.Name // nobody changes it; nil = not read since a change
	more    bool       // there are more than maxNames
	at      time.Time  // when reading them began
	fresh   time.Duration
	waits   bool     // for the names as they are since a change
	reading *reading // nil = nobody reads them

	begin func() (context.Context, context.CancelFunc) // of a reading
	stop  context.CancelFunc                           // ends all
	group sync.WaitGroup                               // of all
}

func newNames(r *registry.Registry, x *pageindex.Index, log *zap.Logger) *names {
	ctx, stop := context.WithCancel(context.Background())
	begin := func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, namesTimeout) }
	return &names{registry: r, index: x, log: log, begin: begin, stop: stop}
}

// close ends what reads names.
func (n *names) close() {
	n.stop()
	n.group.Wait()
}

// reading is one reading of the names.
type reading struct {
	done chan struct{} // closed at its end
	all  []oci.Name
	more bool
	err  error
}

// list returns all names, in the order of the catalog. It waits for them only where none are known.
func (n *names) list(ctx context.Context) (all []oci.Name, more bool, err error) {
	n.mu.Lock()
	if n.all != nil && time.Since(n.at) < n.fresh {
		defer n.mu.Unlock()
		return n.all, n.more, nil
	}
	r := n.reading
	if r == nil {
		r = &reading{done: make(chan struct{})}
		n.reading = r
		n.group.Go(func() { n.read(r) })
	}
	old, oldMore, at, waits := n.all, n.more, n.at, n.waits
	n.mu.Unlock()

	select {
	case <-r.done:
		if r.err == nil {
			return r.all, r.more, nil
		}
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case <-time.After(namesWait):
	}
	if !waits {
		if all := n.known(old, at); all != nil {
			return all[:min(len(all), maxNames)], oldMore || len(all) > maxNames, nil
		}
	}
	select {
	case <-r.done:
		return r.all, r.more, r.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// read reads the names.
func (n *names) read(r *reading) {
	defer close(r.done)
	ctx, cancel := n.begin()
	defer cancel()
	begun := time.Now()
	var found []string
	if found, r.more, r.err = n.registry.Catalog(ctx, maxNames, "", nil); r.err != nil {
		n.log.Warn("cannot read the names of the repositories; the pages list those of before", zap.Error(r.err))
	}
	r.all = make([]oci.Name, len(found))
	for i, name := range found {
		r.all[i] = oci.Name(name)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reading != r {
		return // something was changed meanwhile
	}
	n.reading = nil
	if r.err == nil {
		n.all, n.more, n.at, n.waits = r.all, r.more, begun, false
		n.fresh = max(namesFresh, namesShare*time.Since(begun))
	}
}

// known returns the names of before, and those that the index has read since. It is nil if neither
// has all.
func (n *names) known(old []oci.Name, at time.Time) []oci.Name {
	if n.index == nil || old == nil && n.index.Complete().IsZero() {
		return old
	}
	page := n.index.Repositories(pageindex.Query{})
	var since []oci.Name
	for i := range page.Repositories {
		r := &page.Repositories[i]
		if r.Manifests+r.Tags == 0 || r.Read.Before(at) {
			continue
		}
		if _, ok := slices.BinarySearchFunc(old, r.Name, byCatalog); !ok {
			since = append(since, r.Name)
		}
	}
	if len(since) == 0 {
		return old
	}
	all := slices.Concat(old, since)
	slices.SortFunc(all, byCatalog)
	return all
}

// byCatalog compares names component by component, so that a/b comes before a-b.
func byCatalog(a, b oci.Name) int {
	for {
		x, restA, moreA := strings.Cut(string(a), "/")
		y, restB, moreB := strings.Cut(string(b), "/")
		switch {
		case x != y:
			return cmp.Compare(x, y)
		case !moreA || !moreB:
			return cmp.Compare(restA, restB) // at least one is empty
		}
		a, b = oci.Name(restA), oci.Name(restB)
	}
}

// changed has the names read before they are listed again, if a change may have made or ended the
// repository. One that has a tag is still there.
func (n *names) changed(ctx context.Context, name oci.Name) {
	tags, _, err := n.registry.Repository(name).Tags(ctx, 1, "")
	n.mu.Lock()
	defer n.mu.Unlock()
	// A reading may have begun before the change.
	if _, listed := slices.BinarySearchFunc(n.all, name, byCatalog); listed && err == nil && len(tags) > 0 && n.reading == nil {
		return
	}
	n.all, n.at, n.waits, n.reading = nil, time.Time{}, true, nil
}
