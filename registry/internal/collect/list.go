package collect

import (
	"context"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

var algorithms = []oci.Algorithm{oci.SHA256, oci.SHA384, oci.SHA512}

// hexOf takes the hex of a digest out of a name in a listing.
type hexOf func(e driver.Entry) (hex string, ok bool)

// ofDir is for directories named by digests, ofLink and ofData for what was set
// aside from them.
func ofDir(e driver.Entry) (string, bool)  { return e.Name, e.Dir }
func ofLink(e driver.Entry) (string, bool) { return layout.FromAside(e.Name, "link") }
func ofData(e driver.Entry) (string, bool) { return layout.FromAside(e.Name, "data") }

// eachDigest calls f for all in dir that is named by a digest, in the order of
// their names. A missing directory is an empty one.
func (r *run) eachDigest(ctx context.Context, dir string, alg oci.Algorithm, of hexOf, f func(d oci.Digest) error) error {
	for e, err := range r.Driver.List(ctx, dir, "") {
		if absent(err) {
			return nil
		}
		if err == nil {
			r.letIn()
			err = r.pace.step(ctx)
		}
		if err != nil {
			return err
		}
		hex, ok := of(e)
		if !ok {
			continue
		}
		d, err := oci.ParseDigest(string(alg) + ":" + hex)
		if err != nil {
			continue
		}
		if err := f(d); err != nil {
			return err
		}
	}
	return nil
}

// tidy removes directories that are empty.
func (r *run) tidy(ctx context.Context, dirs ...string) error {
	if r.DryRun {
		return nil
	}
	for _, dir := range dirs {
		if err := r.Driver.Prune(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}
