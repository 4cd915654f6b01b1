package registry

import (
	"context"
	"slices"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/tree"
)

// Repository is a named set of manifests, tags and blobs. It is a small value:
// nobody keeps or closes it.
type Repository struct {
	reg       *Registry
	name      oci.Name
	keepsTags bool // tags that exist are not moved
	filler    bool // the upstream fills it, though clients cannot write to it
	classes   []string
}

// KeepingTags is the repository for a caller who may set new tags but not move those
// that exist: PutManifest is DENIED then.
func (r Repository) KeepingTags() Repository {
	r.keepsTags = true
	return r
}

// OfClasses is the repository for a caller whose token names the classes that manifests may
// have, "" being that of images: where [Validation] has classes, PutManifest is DENIED for
// others. nil stands for all.
func (r Repository) OfClasses(classes []string) Repository {
	r.classes = classes
	return r
}

// Name is the repository's name.
func (r Repository) Name() oci.Name { return r.name }

// What a repository has, and in which it keeps manifests and tags, or blobs.
const (
	manifestsDir = "_manifests"
	layersDir    = "_layers"
)

// known says whether the repository holds anything.
func (r Repository) known(ctx context.Context) (bool, error) {
	l, err := r.reg.list(ctx, layout.Repository(r.name))
	if err != nil {
		return false, fault(err)
	}
	_, manifests := slices.BinarySearch(l.names, manifestsDir)
	_, layers := slices.BinarySearch(l.names, layersDir)
	return manifests || layers, nil
}

// unknown is the error for something that is not in the repository: e, or
// NAME_UNKNOWN if there is no repository either.
func (r Repository) unknown(ctx context.Context, e *oci.Error) error {
	known, err := r.known(ctx)
	switch {
	case err != nil:
		return err
	case !known:
		return r.nameUnknown()
	default:
		return e
	}
}

func (r Repository) nameUnknown() *oci.Error {
	return oci.NewError(oci.CodeNameUnknown, map[string]string{"name": string(r.name)})
}

// listing is the names of the prefixes directly below a prefix, sorted bytewise.
// It is shared: nobody changes it.
type listing struct {
	generation string
	names      []string
}

// list lists the prefixes directly below prefix; none if there is nothing. A
// listing is kept while its generation lasts, and as long as it does, the same
// pointer comes back. The generation is asked first: a change while the listing is
// read makes the next call read again.
func (r *Registry) list(ctx context.Context, prefix string) (*listing, error) {
	l := &listing{generation: r.store.Generation(ctx, prefix)}
	if kept, ok := r.listings.get(prefix); ok && l.generation != "" && kept.generation == l.generation {
		return kept, nil
	}
	weight := int64(len(prefix)) + 200
	for info, err := range r.store.List(ctx, prefix, storage.ListOptions{Names: true}) {
		if err != nil {
			return nil, err
		}
		if info.Prefix {
			name := info.Key[len(prefix)+1 : len(info.Key)-1]
			l.names = append(l.names, name)
			weight += int64(len(name)) + 24
		}
	}
	slices.Sort(l.names) // the store sorts "a-b/" before "a/"
	if l.generation != "" {
		r.listings.put(prefix, l, weight)
	}
	return l, nil
}

// readLink reads a link. Errors are those of the store and of layout.ParseLink; with the
// latter, info is that of the link.
func (r *Registry) readLink(ctx context.Context, key string) (oci.Digest, storage.Info, error) {
	l, _ := tree.ReadLink(ctx, r.store, key, "")
	return l.Target, l.Info, l.Err
}
