package retention

import (
	"context"
	"fmt"

	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// graph is the manifests of one repository and what they refer to.
type graph struct {
	nodes     map[oci.Digest]*node
	referrers map[oci.Digest][]oci.Digest
	begins    map[string]oci.Digest
}

type node struct {
	size     int64
	children []oci.Digest
	blobs    []oci.Digest
}

// readGraph reads all manifests of a repository.
func readGraph(ctx context.Context, s storage.Store, name oci.Name) (*graph, error) {
	g := &graph{nodes: map[oci.Digest]*node{}, referrers: map[oci.Digest][]oci.Digest{}, begins: map[string]oci.Digest{}}
	for link, err := range tree.Revisions(ctx, s, name) {
		if err == nil {
			err = link.Err
		}
		if err == nil && link.Target != link.Digest {
			err = fmt.Errorf("%s leads to %s", link.Digest, link.Target)
		}
		if err != nil {
			return nil, err
		}
		m, size, err := tree.Manifest(ctx, s, link.Digest)
		if err != nil {
			return nil, err
		}
		g.add(link.Digest, m, size)
	}
	return g, nil
}

func (g *graph) add(d oci.Digest, m *oci.Manifest, size int64) {
	n := &node{size: size, blobs: blobsOf(m)}
	for i := range m.Manifests {
		n.children = append(n.children, m.Manifests[i].Digest)
	}
	for i := range m.Layers {
		if oci.IsManifest(m.Layers[i].MediaType) {
			n.children = append(n.children, m.Layers[i].Digest)
		}
	}
	if m.Subject != nil {
		g.referrers[m.Subject.Digest] = append(g.referrers[m.Subject.Digest], d)
	}
	g.nodes[d] = n
	g.begins[begin(d)] = d
}

// blobsOf is what a manifest needs that may be a blob: also of an index, as the
// caches of BuildKit have it. A name that is not a digest is never needed.
func blobsOf(m *oci.Manifest) []oci.Digest {
	var blobs []oci.Digest
	add := func(d oci.Digest) {
		if _, err := oci.ParseDigest(string(d)); err == nil {
			blobs = append(blobs, d)
		}
	}
	if m.Config != nil {
		add(m.Config.Digest)
	}
	for i := range m.Layers {
		add(m.Layers[i].Digest)
	}
	for i := range m.Manifests {
		if !oci.IsManifest(m.Manifests[i].MediaType) {
			add(m.Manifests[i].Digest)
		}
	}
	return blobs
}

// closure is what the roots hold: themselves, what they list to any depth, and
// what refers to any of that.
func (g *graph) closure(roots []oci.Digest) map[oci.Digest]bool {
	held := map[oci.Digest]bool{}
	todo := append([]oci.Digest{}, roots...)
	for len(todo) > 0 {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n := g.nodes[d]
		if n == nil || held[d] {
			continue
		}
		held[d] = true
		todo = append(append(todo, n.children...), g.referrers[d]...)
	}
	return held
}

// untagged is the manifests that no tag holds: none of them goes with a tag.
func (g *graph) untagged(verdicts []*Verdict) []oci.Digest {
	all := make([]oci.Digest, len(verdicts))
	for i, v := range verdicts {
		all[i] = v.Digest
	}
	held := g.closure(all)
	var rest []oci.Digest
	for d := range g.nodes {
		if !held[d] {
			rest = append(rest, d)
		}
	}
	return rest
}

// begin is as much of a digest as has room in a tag.
func begin(d oci.Digest) string {
	hex := d.Hex()
	return string(d.Algorithm()) + ":" + hex[:min(len(hex), 64)]
}
