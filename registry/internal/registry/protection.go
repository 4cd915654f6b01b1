package registry

import (
	"context"
	"errors"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/protect"
)

// Protection returns who protected a tag and when, if somebody did.
func (r Repository) Protection(tag oci.Tag) (protect.Protection, bool) {
	return r.reg.opts.Protected.Of(r.name, tag)
}

// Protect has a tag neither moved nor deleted, by whatever process, until Unprotect. Requests that
// began before may still end; other replicas learn of it within [protect.Interval].
// MANIFEST_UNKNOWN, NAME_UNKNOWN.
func (r Repository) Protect(ctx context.Context, tag oci.Tag) error {
	if err := r.writable(); err != nil {
		return err
	}
	if _, err := r.resolve(ctx, tag); err != nil {
		return err
	}
	defer r.reg.opts.Changed(r.name)
	return fault(r.reg.opts.Protected.Protect(ctx, r.name, tag, protect.Protection{By: r.by, At: r.reg.now().UTC()}))
}

// Unprotect lifts the protection of a tag, which need not exist. MANIFEST_UNKNOWN if it has none.
func (r Repository) Unprotect(ctx context.Context, tag oci.Tag) error {
	if err := r.writable(); err != nil {
		return err
	}
	defer r.reg.opts.Changed(r.name)
	err := r.reg.opts.Protected.Lift(ctx, r.name, tag)
	if errors.Is(err, protect.ErrNotProtected) {
		return oci.NewError(oci.CodeManifestUnknown, "the tag "+string(tag)+" is not protected")
	}
	return fault(err)
}
