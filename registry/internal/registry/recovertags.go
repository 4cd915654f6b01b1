package registry

import (
	"context"
	"errors"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// heldTag is the link of a tag that somebody has in his hands, to look at it
// once more.
type heldTag struct {
	repo  Repository
	tag   oci.Tag
	path  string
	since time.Time
}

// maxHeldTags bounds how many are put back in one go. One for each process is
// common.
const maxHeldTags = 10_000

// RecoverTags puts back the links that a process set aside and died before it
// had looked at them again. Who lives has a link in his hands in a section only:
// what is there still when the sections have ended that had begun before belongs
// to nobody. The error names those that cannot be put back; the others are.
func (r *Registry) RecoverTags(ctx context.Context) error {
	return fault(errors.Join(r.recoverTags(ctx)...))
}

func (r *Registry) recoverTags(ctx context.Context) (left failures) {
	var held []heldTag
	if err := r.heldTags(ctx, "", &held); err != nil {
		left.add(layout.Expiring, err)
	}
	if len(held) == 0 {
		return left
	}
	wait, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	waited := r.driver.Barrier(wait)
	for _, h := range held {
		left.add(h.path, h.putBack(ctx, waited))
	}
	return left
}

// heldTags finds the links that are held, of a repository and of those below it.
// What another process adds meanwhile stays: only directories are removed in
// which nothing is.
func (r *Registry) heldTags(ctx context.Context, name oci.Name, held *[]heldTag) error {
	dir := layout.Expiring
	if name != "" {
		dir += "/" + string(name)
	}
	var errs []error
	for e, err := range r.driver.List(ctx, dir, "") {
		switch {
		case absent(err):
			return nil
		case err != nil:
			return errors.Join(append(errs, err)...)
		case name != "" && layout.Private(e.Name):
			err = r.Repository(name).heldTags(ctx, held)
		default:
			child, ok := childName(string(name), e.Name)
			if !ok {
				continue
			}
			err = r.heldTags(ctx, oci.Name(child), held)
		}
		if err != nil && len(errs) < maxTroubles {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, r.driver.Prune(ctx, dir))...)
}

func (r Repository) heldTags(ctx context.Context, held *[]heldTag) error {
	dir := layout.ExpiringTags(r.name)
	for e, err := range r.reg.driver.List(ctx, dir, "") {
		if absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		tag, err := layout.FromExpiring(e.Name)
		if err != nil || len(*held) == maxHeldTags {
			continue
		}
		path := dir + "/" + e.Name
		info, err := r.reg.driver.Stat(ctx, path)
		if err == nil {
			*held = append(*held, heldTag{r, tag, path, info.Moved})
		} else if !absent(err) {
			return err
		}
	}
	return r.reg.driver.Prune(ctx, dir)
}

// putBack puts the link back if it is the one that was found, and nobody who
// lives has it. waited is why those could not be waited for who might: then its
// age has to say so.
func (h heldTag) putBack(ctx context.Context, waited error) error {
	store := h.repo.reg.driver
	info, err := store.Stat(ctx, h.path)
	if err != nil || !info.Moved.Equal(h.since) {
		return unlessAbsent(err)
	}
	if waited != nil && store.Now().Sub(h.since) <= commitTimeout {
		return waited
	}
	if err := h.repo.reg.putBack(ctx, h.path, layout.TagCurrent(h.repo.name, h.tag)); err != nil {
		return err
	}
	return h.repo.FinishExpiry(ctx)
}
