package retention

import (
	"context"
	"errors"
	"fmt"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// weigh counts the bytes that nothing needs any more, each once: what is left of
// all that the tags need when all that stays has taken its own.
func (p *planner) weigh(ctx context.Context) error {
	if len(p.freed) == 0 {
		return nil
	}
	for name, err := range tree.Everything(ctx, p.store) {
		if err == nil {
			err = p.claim(ctx, name)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			p.problem(name, fmt.Errorf("what it needs is not known, and may be counted as freed: %w", err))
		}
	}
	for d, size := range p.freed {
		size, err := p.size(ctx, d, size)
		if errors.Is(err, storage.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		p.plan.Blobs++
		p.plan.Bytes += size
	}
	return nil
}

// size returns the size of the stored blob.
func (p *planner) size(ctx context.Context, d oci.Digest, known int64) (int64, error) {
	if known >= 0 {
		return known, nil
	}
	info, err := p.store.Stat(ctx, layout.BlobData(d))
	return info.Size, err
}

// claim takes out what a repository needs of what stays in it. One that cannot
// be read keeps all that it has.
func (p *planner) claim(ctx context.Context, name oci.Name) error {
	g, err := tree.ReadGraph(ctx, p.store, name, nil)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return p.claimLayers(ctx, name)
	}
	for d, n := range g.Nodes {
		if p.gone[name][d] {
			continue
		}
		if err := p.keep(ctx, d); err != nil {
			return err
		}
		for _, b := range n.Needs {
			if err := p.keep(ctx, b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *planner) claimLayers(ctx context.Context, name oci.Name) error {
	for link, err := range tree.Layers(ctx, p.store, name) {
		if err == nil {
			err = p.keep(ctx, link.Digest)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keep removes a blob that is still needed from those that may be freed.
func (p *planner) keep(ctx context.Context, d oci.Digest) error {
	known, ok := p.freed[d]
	if !ok {
		return nil
	}
	delete(p.freed, d)
	size, err := p.size(ctx, d, known)
	if errors.Is(err, storage.ErrNotExist) {
		return nil
	}
	p.plan.Shared += size
	return err
}
