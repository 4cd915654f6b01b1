package registry

import (
	"context"
	"errors"
	"path"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// ExpireTag removes a tag with its history if it points at d still, since the
// time given, and is not immutable. A push at the same time, by whatever
// process, is never undone: the link is set aside, looked at again, and put back
// if it is not the one that was meant. When all tags of the repository are done
// that are to go, FinishExpiry tidies up.
func (r Repository) ExpireTag(ctx context.Context, tag oci.Tag, d oci.Digest, since time.Time) (removed bool, err error) {
	if err := r.reg.writable(); err != nil {
		return false, err
	}
	if r.Immutable(tag) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	mu := r.lock()
	mu.Lock()
	defer mu.Unlock()
	if removed, err = r.takeTag(ctx, tag, d, since); removed {
		r.releasePromises(ctx, d, maxDepth)
	}
	return removed, fault(err)
}

// takeTag removes a tag with its history if its link to d is the one of that
// time, and undoes no push. While it has the link in its hands it is in a section:
// see RecoverTags. The error is that of the driver.
func (r Repository) takeTag(ctx context.Context, tag oci.Tag, d oci.Digest, since time.Time) (taken bool, err error) {
	aside := layout.ExpiringTag(r.name, tag)
	leave, err := r.reg.driver.Enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	if taken, err = r.reg.takeLink(ctx, layout.TagCurrent(r.name, tag), aside, d, since); taken {
		err = r.forgetTag(ctx, tag, d, aside)
	}
	return taken, err
}

// takeLink moves a link to aside if it is the one of that time.
func (r *Registry) takeLink(ctx context.Context, path, aside string, d oci.Digest, since time.Time) (taken bool, err error) {
	if same, err := r.isLink(ctx, path, d, since); err != nil || !same {
		return false, err
	}
	switch err := r.driver.SetAside(ctx, path, aside); {
	case absent(err), errors.Is(err, driver.ErrExist): // somebody else has it in his hands
		return false, nil
	case err != nil:
		return false, err
	}
	same, err := r.isLink(ctx, aside, d, since)
	if err != nil || !same {
		return false, errors.Join(err, r.putBack(ctx, aside, path))
	}
	return true, nil
}

// FinishExpiry removes what ExpireTag needed, if nobody else is at it.
func (r Repository) FinishExpiry(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	dir := layout.ExpiringTags(r.name)
	for dir != layout.Own {
		if err := r.reg.driver.Prune(ctx, dir); err != nil {
			return fault(err)
		}
		dir = path.Dir(dir)
	}
	return nil
}

// isLink says whether the link to d of that time is at path. An error of the
// storage is none of what it says.
func (r *Registry) isLink(ctx context.Context, path string, d oci.Digest, since time.Time) (bool, error) {
	info, err := r.driver.Stat(ctx, path)
	if err != nil || !info.Changed.Equal(since) {
		return false, unlessAbsent(err)
	}
	got, err := r.readLink(ctx, path, layout.Aside(path))
	if isBadLink(err) {
		return false, nil
	}
	return err == nil && got == d, unlessAbsent(err)
}

// putBack restores a link that was set aside, unless something is in its place
// again, or somebody else has restored it.
func (r *Registry) putBack(ctx context.Context, aside, path string) error {
	err := r.driver.Restore(ctx, aside, path)
	if errors.Is(err, driver.ErrExist) {
		return r.driver.Discard(ctx, aside)
	}
	return unlessAbsent(err)
}

// forgetTag removes what is left of a tag whose link to d was set aside. If the
// tag is pushed anew meanwhile, it loses nothing but its history. None of it is
// flushed: a tag that is back after a power loss goes the next time. Nearly all
// tags have d alone as their history, and nothing needs to be listed then.
func (r Repository) forgetTag(ctx context.Context, tag oci.Tag, d oci.Digest, aside string) error {
	dir, store := layout.Tag(r.name, tag), r.reg.driver
	only := layout.TagIndex(r.name, tag, d)
	err := errors.Join(
		store.Discard(ctx, aside),
		store.Discard(ctx, only),
		store.Prune(ctx, path.Dir(only)),
		store.Prune(ctx, layout.TagHistory(r.name, tag, d.Algorithm())),
		store.Prune(ctx, dir+"/index"),
		store.Prune(ctx, dir+"/current"),
		store.Prune(ctx, dir),
	)
	if _, gone := store.Stat(ctx, dir); err != nil || absent(gone) {
		return err
	}
	return errors.Join(
		store.Discard(ctx, dir+"/index"),
		store.Prune(ctx, dir+"/current"),
		store.Prune(ctx, dir),
	)
}
