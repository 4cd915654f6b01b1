package registry

import (
	"context"
	"errors"
	"slices"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Catalog lists at most n repositories that hold manifests and that the caller may see
// (nil stands for all), strictly after last, and reports whether there are more. The order is
// that of distribution: component by component, so that a/b comes before a-b.
func (r *Registry) Catalog(ctx context.Context, n int, last string, visible func(oci.Name) bool) (names []string, more bool, err error) {
	page := catalogPage{reg: r, limit: n + 1, visible: visible, names: []string{}}
	var after []string
	if last != "" {
		after = strings.Split(last, "/")
	}
	if n <= 0 {
		return page.names, false, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // listings that were prefetched and are not needed
	if err := page.walk(ctx, "", after, page.list(ctx, "")); err != nil && !errors.Is(err, errPageFull) {
		return nil, false, err
	}
	if len(page.names) > n {
		return page.names[:n], true, nil
	}
	return page.names, false, nil
}

// catalogPage collects names until it is full.
type catalogPage struct {
	reg     *Registry
	limit   int
	visible func(oci.Name) bool // nil = all are
	names   []string
}

// walk adds the repository and those below it, except what comes before the
// components in after. after is nil where nothing is left out; empty where only
// the repository itself is.
func (p *catalogPage) walk(ctx context.Context, name string, after []string, list func() (*tree.Listing, error)) error {
	children, err := list()
	if err != nil {
		return err
	}
	if after == nil && name != "" {
		if err := p.add(name, children); err != nil {
			return err
		}
	}
	return p.walkChildren(ctx, name, children.Names, after)
}

// list lists what is below a repository, perhaps ahead.
func (p *catalogPage) list(ctx context.Context, name string) func() (*tree.Listing, error) {
	return storage.Ahead(p.reg.store.Remote, func() (*tree.Listing, error) { return p.reg.store.Below(ctx, repositoryPrefix(name)) })
}

func (p *catalogPage) add(name string, children *tree.Listing) error {
	if !children.Has(manifestsDir) || p.visible != nil && !p.visible(oci.Name(name)) {
		return nil
	}
	p.names = append(p.names, name)
	if len(p.names) == p.limit {
		return errPageFull
	}
	return nil
}

func (p *catalogPage) walkChildren(ctx context.Context, name string, children, after []string) error {
	start := 0
	if len(after) > 0 {
		start, _ = slices.BinarySearch(children, after[0])
	}
	var ahead []childList
	for next := start; ; {
		// A page reads nothing beyond its last entry.
		for ; next < len(children) && len(ahead) < min(storage.AtOnce, p.limit-len(p.names)); next++ {
			if full, ok := childName(name, children[next]); ok {
				ahead = append(ahead, childList{full, p.list(ctx, full)})
			}
		}
		if len(ahead) == 0 {
			return nil
		}
		child := ahead[0]
		ahead = ahead[1:]
		var rest []string
		if len(after) > 0 && child.name[strings.LastIndexByte(child.name, '/')+1:] == after[0] {
			rest = append([]string{}, after[1:]...)
		}
		if err := p.walk(ctx, child.name, rest, child.list); err != nil {
			return err
		}
	}
}

// childList is a repository and the listing of its children, which may still be in progress.
type childList struct {
	name string
	list func() (*tree.Listing, error)
}

// repositoryPrefix returns the prefix of a repository; "" stands for all of them.
func repositoryPrefix(name string) string {
	if name == "" {
		return layout.Repositories
	}
	return layout.Repository(oci.Name(name))
}

// childName returns the name of a repository below another one ("" stands for all). ok is
// false for what no request could name: what belongs to the repository itself, and
// what others put there.
func childName(name, child string) (full string, ok bool) {
	if layout.Private(child) {
		return "", false
	}
	if name != "" {
		child = name + "/" + child
	}
	_, err := oci.ParseName(child)
	return child, err == nil
}
