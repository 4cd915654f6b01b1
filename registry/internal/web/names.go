package web

import (
	"context"
	"sync"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

const (
	namesFresh = 3 * time.Second
	maxNames   = 200_000 // repositories that the pages list
)

// names remembers the names of all repositories for a moment: each page of a list needs all.
type names struct {
	registry *registry.Registry

	mu   sync.Mutex
	all  []oci.Name // nobody changes it
	more bool       // there are more than maxNames
	at   time.Time
}

// list returns all names, in the order of the catalog.
func (n *names) list(ctx context.Context) (all []oci.Name, more bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all != nil && time.Since(n.at) < namesFresh {
		return n.all, n.more, nil
	}
	begun := time.Now()
	found, more, err := n.registry.Catalog(ctx, maxNames, "", nil)
	if err != nil {
		return nil, false, err
	}
	all = make([]oci.Name, len(found))
	for i, name := range found {
		all[i] = oci.Name(name)
	}
	n.all, n.more, n.at = all, more, begun
	return all, more, nil
}

// forget makes the next list a new one, after a change.
func (n *names) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = nil
}
