package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// ExpireTag removes a tag with its history if it points at d still, since the
// time given, and is not immutable. A push at the same time, by whatever
// process, is never undone: the link is set aside, looked at again, and put back
// if it is not the one that was meant.
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
	current := layout.TagCurrent(r.name, tag)
	if !r.reg.isLink(ctx, current, d, since) {
		return false, nil
	}
	set := layout.Expiring + "/" + rand.Text()
	switch err := r.reg.driver.SetAside(ctx, current, set+current); {
	case absent(err):
		return false, nil
	case err != nil:
		return false, fault(err)
	case !r.reg.isLink(ctx, set+current, d, since):
		return false, fault(r.reg.putBack(ctx, set, current))
	}
	r.releasePromises(ctx, d, maxDepth)
	return true, fault(r.forgetTag(ctx, tag, set))
}

func (r *Registry) isLink(ctx context.Context, path string, d oci.Digest, since time.Time) bool {
	info, err := r.driver.Stat(ctx, path)
	if err != nil || !info.Changed.Equal(since) {
		return false
	}
	got, err := r.readLink(ctx, path)
	return err == nil && got == d
}

// putBack restores what was set aside below set, unless something is in its
// place again, or somebody else has restored it.
func (r *Registry) putBack(ctx context.Context, set, path string) error {
	err := r.driver.Restore(ctx, set+path, path)
	if err == nil || absent(err) || errors.Is(err, driver.ErrExist) {
		return r.driver.Discard(ctx, set+path)
	}
	return err
}

// forgetTag removes what is left of a tag whose link was set aside. If the tag
// is pushed anew meanwhile, it loses nothing but its history. None of it is
// flushed: a tag that is back after a power loss goes the next time.
func (r Repository) forgetTag(ctx context.Context, tag oci.Tag, set string) error {
	dir := layout.Tag(r.name, tag)
	return errors.Join(
		r.reg.driver.Discard(ctx, set),
		r.reg.driver.Discard(ctx, dir+"/index"),
		r.reg.driver.Prune(ctx, dir+"/current"),
		r.reg.driver.Prune(ctx, dir),
	)
}

// RecoverTags puts back the links that a process set aside and died before it
// had looked at them again.
func (r *Registry) RecoverTags(ctx context.Context) error {
	for e, err := range r.driver.List(ctx, layout.Expiring, "") {
		if absent(err) {
			return nil
		}
		if err != nil {
			return fault(err)
		}
		if err := r.recover(ctx, layout.Expiring+"/"+e.Name, ""); err != nil {
			return fault(err)
		}
	}
	return nil
}

// recover puts back all below a directory of what was set aside. What another
// process adds to it meanwhile stays: only what is empty is removed.
func (r *Registry) recover(ctx context.Context, set, path string) error {
	for e, err := range r.driver.List(ctx, set+path, "") {
		switch below := path + "/" + e.Name; {
		case absent(err):
			return nil
		case err != nil:
			return err
		case e.Dir:
			err = r.recover(ctx, set, below)
		default:
			err = r.putBack(ctx, set, below)
		}
		if err != nil {
			return err
		}
	}
	return r.driver.Prune(ctx, set+path)
}
