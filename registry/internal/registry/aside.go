package registry

import (
	"context"
	"errors"
	"fmt"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// The collector of garbage sets objects aside before it makes sure that nobody
// needs them (see package collect). Until it purges them they are still there, for
// all that is asked of this package.

// purpose is what something is looked for.
type purpose int

const (
	toRead purpose = iota // nothing is promised: it may stay aside
	toKeep                // by a writer in a section, who is about to rely on it
	toTell                // a client is told that it is there, and may rely on it
)

// turns is how often an object is looked for that others move to and fro.
const turns = 4

// find describes the object at path, wherever it is. ErrNotExist.
func (r *Registry) find(ctx context.Context, path string, why purpose) (driver.Info, error) {
	for range turns {
		info, at, err := r.driver.Find(ctx, path, layout.Aside(path))
		if err != nil || at == path || why == toRead || r.readOnly {
			return info, err
		}
		if err := r.bringBack(ctx, path); err != nil && !absent(err) {
			return info, err
		}
	}
	return driver.Info{}, restless(path)
}

// bringBack puts what was set aside into its place again, if nothing else is
// there by now, as where the collector has put it back. ErrNotExist if it is at
// neither.
func (r *Registry) bringBack(ctx context.Context, path string) error {
	err := r.driver.Restore(ctx, layout.Aside(path), path)
	switch {
	case errors.Is(err, driver.ErrExist):
		return nil
	case absent(err):
		_, err = r.driver.Stat(ctx, path)
	}
	return err
}

// readAnywhere is ReadFile of an object that may be aside.
func (r *Registry) readAnywhere(ctx context.Context, path string, limit int64) ([]byte, error) {
	return r.readEither(ctx, path, layout.Aside(path), limit)
}

// readEither is ReadFile of an object that others move between two paths.
func (r *Registry) readEither(ctx context.Context, path, other string, limit int64) ([]byte, error) {
	b, err := r.driver.ReadFile(ctx, path, limit)
	for i := 0; absent(err) && i < turns; i++ {
		if b, err = r.driver.ReadFile(ctx, other, limit); absent(err) {
			if b, err = r.driver.ReadFile(ctx, path, limit); absent(err) {
				return nil, err
			}
		}
	}
	return b, err
}

// openAnywhere is Open of an object that may be aside.
func (r *Registry) openAnywhere(ctx context.Context, path string) (driver.File, error) {
	f, err := r.driver.Open(ctx, path)
	if absent(err) {
		if f, err = r.driver.Open(ctx, layout.Aside(path)); absent(err) {
			f, err = r.driver.Open(ctx, path)
		}
	}
	return f, err
}

// removeAnywhere durably removes the object at path, in its place and aside.
// ErrNotExist if there was none.
func (r *Registry) removeAnywhere(ctx context.Context, path string) error {
	found := false
	for range turns {
		inPlace, wasAside := r.driver.Remove(ctx, path), r.driver.Remove(ctx, layout.Aside(path))
		for _, err := range []error{inPlace, wasAside} {
			if err != nil && !absent(err) {
				return err
			}
		}
		if inPlace != nil && wasAside != nil {
			if !found {
				return inPlace
			}
			return nil
		}
		found = true
	}
	return restless(path)
}

func restless(path string) error { return fmt.Errorf("%s is moved to and fro", path) }

// revision is nil if the repository has the manifest. MANIFEST_UNKNOWN,
// NAME_UNKNOWN.
func (r Repository) revision(ctx context.Context, d oci.Digest, why purpose) error {
	path := layout.RevisionLink(r.name, d)
	info, err := r.reg.driver.Stat(ctx, path)
	if absent(err) {
		info, err = r.revisionAside(ctx, d, why)
	}
	if err == nil && why == toTell {
		err = r.reg.renew(ctx, path, d, info)
	}
	if absent(err) {
		return r.unknown(ctx, r.revisionUnknown(d))
	}
	return fault(err)
}

// revisionAside looks for a manifest that was set aside. It is brought back
// after all that it needs, so that who sees it in its place need not look
// further; without that it is gone, even if its link is not yet.
func (r Repository) revisionAside(ctx context.Context, d oci.Digest, why purpose) (driver.Info, error) {
	path := layout.RevisionLink(r.name, d)
	info, err := r.reg.driver.Stat(ctx, layout.Aside(path))
	if absent(err) {
		return r.reg.driver.Stat(ctx, path)
	}
	if err != nil || why == toRead || r.reg.readOnly {
		return info, err
	}
	leave, err := r.reg.driver.Enter(ctx)
	if err != nil {
		return info, err
	}
	defer leave()
	if err := r.bringBackWhole(ctx, d, map[oci.Digest]bool{}); err != nil {
		return info, err
	}
	return r.reg.driver.Stat(ctx, path)
}

// bringBackManifest brings back a manifest if it was set aside, in a section, and
// says whether it is there.
func (r Repository) bringBackManifest(ctx context.Context, d oci.Digest, seen map[oci.Digest]bool) (there bool, err error) {
	link := layout.RevisionLink(r.name, d)
	_, at, err := r.reg.driver.Find(ctx, link, layout.Aside(link))
	if err != nil {
		return false, unlessAbsent(err)
	}
	if at != link {
		err = r.bringBackWhole(ctx, d, seen)
	}
	return err == nil, err
}

// bringBackWhole brings back a manifest after all that it needs. It is called
// in a section. ErrNotExist if something is missing.
func (r Repository) bringBackWhole(ctx context.Context, d oci.Digest, seen map[oci.Digest]bool) error {
	if seen[d] {
		return nil
	}
	seen[d] = true
	refs, err := r.reg.references(ctx, d)
	if err != nil {
		return err
	}
	if _, err := r.reg.find(ctx, layout.BlobData(d), toKeep); err != nil {
		return err
	}
	for _, ref := range refs.Needed {
		if err := r.bringBackReference(ctx, ref, seen); err != nil {
			return err
		}
	}
	for _, ref := range refs.Elsewhere {
		if err := r.bringBackReference(ctx, ref, seen); err != nil && !absent(err) {
			return err
		}
	}
	_, err = r.reg.find(ctx, layout.RevisionLink(r.name, d), toKeep)
	return err
}

// bringBackReference brings back what a manifest needs: another one, or a blob.
func (r Repository) bringBackReference(ctx context.Context, d oci.Digest, seen map[oci.Digest]bool) error {
	if there, err := r.bringBackManifest(ctx, d, seen); there || err != nil {
		return err
	}
	target, err := r.blobLink(ctx, d, toKeep)
	if isCode(err, oci.CodeBlobUnknown) {
		return fmt.Errorf("%s: %w", d, driver.ErrNotExist)
	}
	if err != nil {
		return err
	}
	_, err = r.reg.find(ctx, layout.BlobData(target), toKeep)
	return err
}

// references reads what a stored manifest needs. The error is that of the
// driver, or ErrDamaged, or errNotManifest.
func (r *Registry) references(ctx context.Context, d oci.Digest) (*oci.References, error) {
	body, err := r.readAnywhere(ctx, layout.BlobData(d), max(r.maxManifestSize, DefaultMaxManifestSize))
	if err != nil {
		return nil, err
	}
	if d.Algorithm().FromBytes(body) != d {
		return nil, fmt.Errorf("%w: manifest %s", ErrDamaged, d)
	}
	refs, err := oci.ReadReferences(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %s", errNotManifest, d, err.Error())
	}
	return refs, nil
}
