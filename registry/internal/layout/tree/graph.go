package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Node is a manifest of a repository.
type Node struct {
	Link               // zero for one that the repository doesn't link
	Size  int64        // of its bytes
	Needs []oci.Digest // blobs and manifests, wherever they lie
	// Subject is the manifest that it refers to, "" if there is none. It may not exist.
	Subject oci.Digest
}

// Graph holds manifests of a repository and what they refer to.
type Graph struct {
	Nodes     map[oci.Digest]*Node
	Referrers map[oci.Digest][]oci.Digest // manifests by their subject
}

// NewGraph returns a graph without nodes.
func NewGraph() *Graph {
	return &Graph{Nodes: map[oci.Digest]*Node{}, Referrers: map[oci.Digest][]oci.Digest{}}
}

// ReadGraph reads all manifests that a repository links. bad is called for each that can't be read and
// returns the error that ends the reading, nil to leave the manifest out; nil stands for a bad that returns its error.
func ReadGraph(ctx context.Context, s storage.Store, name oci.Name, bad func(Link, error) error) (*Graph, error) {
	g := NewGraph()
	for link, err := range Revisions(ctx, s, name) {
		if err != nil {
			return nil, err
		}
		err = link.Err
		if err == nil && link.Target != link.Digest {
			err = fmt.Errorf("%w: %s leads to %s", layout.ErrBadLink, link.Digest, link.Target)
		}
		if err == nil {
			err = g.Read(ctx, s, link)
		}
		if err != nil && bad != nil && ctx.Err() == nil {
			err = bad(link, err)
		}
		if err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Unreadable reports whether err is about a link or a manifest, and not a fault of the store.
func Unreadable(err error) bool {
	for _, reason := range []error{ErrDamaged, ErrNotManifest, layout.ErrEmptyLink, layout.ErrBadLink, storage.ErrNotExist, storage.ErrTooLarge} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// ReadNode reads the manifest to which the link leads; only its digest is needed. Errors are those of Manifest.
func ReadNode(ctx context.Context, s storage.Store, link Link) (*Node, error) {
	body, err := manifestBytes(ctx, s, link.Digest)
	if err != nil {
		return nil, err
	}
	refs, err := oci.ReadReferences(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotManifest, link.Digest, err)
	}
	return &Node{Link: link, Size: int64(len(body)), Needs: refs.Needed, Subject: refs.Subject}, nil
}

// Read adds a manifest that ReadNode reads.
func (g *Graph) Read(ctx context.Context, s storage.Store, link Link) error {
	n, err := ReadNode(ctx, s, link)
	if err == nil {
		g.Add(link.Digest, n)
	}
	return err
}

// Add adds a manifest.
func (g *Graph) Add(d oci.Digest, n *Node) {
	g.Nodes[d] = n
	if n.Subject != "" {
		g.Referrers[n.Subject] = append(g.Referrers[n.Subject], d)
	}
}

// Closure returns the roots, what they need to any depth, and what refers to any of these manifests.
func (g *Graph) Closure(roots []oci.Digest) map[oci.Digest]bool { return g.closure(roots, false) }

// Component is like Closure but also follows the subjects of the manifests.
func (g *Graph) Component(roots []oci.Digest) map[oci.Digest]bool { return g.closure(roots, true) }

func (g *Graph) closure(roots []oci.Digest, subjects bool) map[oci.Digest]bool {
	held := map[oci.Digest]bool{}
	for todo := slices.Clone(roots); len(todo) > 0; {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if held[d] {
			continue
		}
		held[d] = true
		n := g.Nodes[d]
		if n == nil {
			continue
		}
		todo = append(append(todo, n.Needs...), g.Referrers[d]...)
		if subjects && g.Nodes[n.Subject] != nil {
			todo = append(todo, n.Subject)
		}
	}
	return held
}
