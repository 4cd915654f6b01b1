// Package usage counts the bytes that repositories take.
package usage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/layout/tree"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registry/quota"
	"slipway/registry/internal/storage"
	"slipway/shared/plural"
)

// Repository counts the bytes of one repository.
type Repository struct {
	Name      oci.Name `json:"name"`
	Tags      int      `json:"tags"`
	Manifests int      `json:"manifests"`
	Blobs     int      `json:"blobs"`
	Bytes     int64    `json:"bytes"` // of all its blobs and manifests, each once
	Own       int64    `json:"own"`   // of those that no other repository has
	// Restorable are the bytes that only what was deleted from it and can be restored needs.
	Restorable int64 `json:"restorable"`
}

// Quota is a quota and the bytes of it that are used.
type Quota struct {
	Prefix oci.Name `json:"prefix"`
	Bytes  int64    `json:"bytes"` // of the repositories under the prefix and of their uploads
	Limit  int64    `json:"limit"`
}

// Report counts the content of the storage. Where it is incomplete, what repositories that could
// not be read share, hold and receive is unknown: the sums are of the others, and no
// orphans are counted.
type Report struct {
	Incomplete   bool         `json:"incomplete"`
	Repositories []Repository `json:"repositories"` // that hold anything
	Blobs        int          `json:"blobs"`        // that some repository has
	Bytes        int64        `json:"bytes"`        // of them, each once
	Shared       int64        `json:"shared"`       // of those that several have
	Orphans      int          `json:"orphans"`      // blobs in no repository
	Orphaned     int64        `json:"orphaned"`     // their bytes
	Uploads      int          `json:"uploads"`      // that are not finished
	Uploading    int64        `json:"uploading"`    // their bytes; registry uploads delete frees those of abandoned ones
	Quotas       []Quota      `json:"quotas,omitempty"`
	Problems     []string     `json:"problems,omitempty"`
}

// key stands for a digest in a quarter of the memory.
type key [sha256.Size]byte

// blob is one that some repository has.
type blob struct {
	size        int64
	owner, last int32 // index of the only repository that has it, shared or unowned; the last one that was counted
}

const (
	shared  = -1
	unowned = -2 // no repository has it
)

type counter struct {
	store  storage.Store
	report Report
	blobs  map[key]blob
	quotas []quota.Quota // in the order of the report

	skipped map[oci.Name]bool
	trash   map[oci.Name]bool // repositories with records of deletions
	deleted map[key]bool      // manifests that no repository has but can restore
}

// skip notes once why a repository is not counted, or not all of it.
func (c *counter) skip(name oci.Name, err error) {
	c.report.Incomplete = true
	if !c.skipped[name] {
		c.skipped[name] = true
		c.report.Problems = append(c.report.Problems, fmt.Sprintf("%s: %s", name, Cause(err)))
	}
}

// Cause says once why something on the storage cannot be read. An error that was made
// for clients says it twice, with a code.
func Cause(err error) string {
	if errors.Is(err, storage.ErrDenied) {
		return storage.ErrDenied.Error()
	}
	if e := (*oci.Error)(nil); errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	return err.Error()
}

// Count looks at the whole storage, whose rules are given. What cannot be read is
// among the problems.
func Count(ctx context.Context, s storage.Store, rules *registry.Registry, quotas ...quota.Quota) (*Report, error) {
	c := &counter{store: s, report: Report{Repositories: []Repository{}}, blobs: map[key]blob{}, quotas: quotas, skipped: map[oci.Name]bool{}, trash: map[oci.Name]bool{}, deleted: map[key]bool{}}
	for _, q := range quotas {
		c.report.Quotas = append(c.report.Quotas, Quota{Prefix: q.Prefix, Limit: q.Limit})
	}
	unlisted := c.list(ctx)
	for name, err := range tree.Deleted(ctx, s) {
		if err != nil {
			return nil, err
		}
		c.trash[name] = true
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for name, err := range tree.Everything(ctx, s) {
		if err == nil {
			err = c.repository(ctx, name)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			c.skip(name, err)
		}
	}
	if unlisted != nil && !c.report.Incomplete {
		return nil, unlisted
	}
	for k, b := range c.blobs {
		switch {
		case b.owner != unowned:
			c.report.Blobs++
			c.report.Bytes += b.size
		case !c.report.Incomplete && !c.deleted[k]: // otherwise a repository that could not be read may have it
			c.report.Orphans++
			c.report.Orphaned += b.size
		}
		if b.owner == shared {
			c.report.Shared += b.size
		}
	}
	return &c.report, c.uploads(ctx, rules)
}

// list finds the sizes of all blobs, a thousand a request on an object store. What it misses is
// looked at one by one.
func (c *counter) list(ctx context.Context) error {
	for b, err := range tree.Blobs(ctx, c.store, "") {
		if err != nil {
			return err
		}
		c.blobs[keyOf(b.Digest)] = blob{size: b.Size, owner: unowned, last: shared}
	}
	return nil
}

// repository counts one repository, and leaves it out of the report if it holds
// nothing.
func (c *counter) repository(ctx context.Context, name oci.Name) error {
	i := len(c.report.Repositories)
	c.report.Repositories = append(c.report.Repositories, Repository{Name: name})
	err := c.links(ctx, name, int32(i))
	if err == nil {
		err = c.restorable(ctx, name, int32(i))
	}
	if r := &c.report.Repositories[i]; r.Tags+r.Manifests+r.Blobs == 0 && r.Restorable == 0 {
		c.report.Repositories = c.report.Repositories[:i]
	}
	return err
}

func (c *counter) links(ctx context.Context, name oci.Name, i int32) error {
	var bad int
	var first tree.Link // of those that cannot be read
	readable := func(l tree.Link) bool {
		if l.Err != nil {
			if bad++; bad == 1 {
				first = l
			}
		}
		return l.Err == nil
	}
	for link, err := range tree.ListLayers(ctx, c.store, name) {
		if err == nil && readable(link) {
			err = c.add(ctx, i, link.Target)
		}
		if err != nil {
			return err
		}
	}
	prefix := layout.Manifests(name)
	for info, err := range c.store.List(ctx, prefix, storage.ListOptions{Flat: true}) {
		if err != nil {
			return err
		}
		rest := info.Key[len(prefix)+1:]
		if d, ok := layout.ParseRevisionLink(rest); ok {
			if link, ok := tree.ListedLink(ctx, c.store, info, d); ok && readable(link) {
				c.report.Repositories[i].Manifests++
				err = c.add(ctx, i, link.Target)
			}
		} else if tag, ok := strings.CutSuffix(rest, "/"+layout.TagCurrentName); ok {
			if _, bad := oci.ParseTag(strings.TrimPrefix(tag, "tags/")); bad == nil {
				c.report.Repositories[i].Tags++
			}
		}
		if err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%s cannot be read, such as %s: %w", plural.Of(bad, "link"), first.Key, first.Err)
	}
	return nil
}

// add counts a blob of a repository, once.
func (c *counter) add(ctx context.Context, i int32, d oci.Digest) error {
	repo, k := &c.report.Repositories[i], keyOf(d)
	b, known := c.blobs[k]
	if !known {
		info, err := c.store.Stat(ctx, layout.BlobData(d))
		if errors.Is(err, storage.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		b = blob{size: info.Size, owner: unowned, last: shared}
	}
	if b.last == i {
		return nil
	}
	if b.owner == unowned {
		b.owner = i
		repo.Own += b.size
	} else if b.owner != i && b.owner != shared {
		c.report.Repositories[b.owner].Own -= b.size
		b.owner = shared
	}
	b.last = i
	c.blobs[k] = b
	repo.Blobs++
	repo.Bytes += b.size
	c.use(repo.Name, b.size)
	return nil
}

// use counts bytes of a repository against the quotas that cover it.
func (c *counter) use(name oci.Name, bytes int64) {
	for i, q := range c.quotas {
		if q.Covers(name) {
			c.report.Quotas[i].Bytes += bytes
		}
	}
}

func (c *counter) uploads(ctx context.Context, rules *registry.Registry) error {
	for u, err := range rules.Uploads(ctx) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.skip(u.Repository, err)
			continue
		}
		c.report.Uploads++
		c.report.Uploading += u.Size
		c.use(u.Repository, u.Size)
	}
	return nil
}

func keyOf(d oci.Digest) key { return sha256.Sum256([]byte(d)) }
