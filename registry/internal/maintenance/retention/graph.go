package retention

import (
	"context"

	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// graph holds the manifests of one repository, also by the part of their digests that the tags of companions contain.
type graph struct {
	*tree.Graph
	begins map[string]oci.Digest
}

// readGraph reads all manifests of a repository.
func readGraph(ctx context.Context, s storage.Store, name oci.Name) (*graph, error) {
	all, err := tree.ReadGraph(ctx, s, name, nil)
	if err != nil {
		return nil, err
	}
	g := &graph{all, map[string]oci.Digest{}}
	for d := range all.Nodes {
		g.begins[begin(d)] = d
	}
	return g, nil
}

// untagged returns the manifests that no tag holds: none of them goes with a tag.
func (g *graph) untagged(verdicts []*Verdict) []oci.Digest {
	all := make([]oci.Digest, len(verdicts))
	for i, v := range verdicts {
		all[i] = v.Digest
	}
	held := g.Closure(all)
	var rest []oci.Digest
	for d := range g.Nodes {
		if !held[d] {
			rest = append(rest, d)
		}
	}
	return rest
}

// begin returns the longest prefix of a digest that fits into a tag.
func begin(d oci.Digest) string {
	hex := d.Hex()
	return string(d.Algorithm()) + ":" + hex[:min(len(hex), 64)]
}
