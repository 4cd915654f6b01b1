package verify

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// repair moves the object of a finding into the quarantine, under its own path.
// Nothing is deleted, and nothing that was written since it was looked at is
// kept away: what was moved is looked at again and moved back if need be.
func (v *verification) repair(ctx context.Context, f *Finding, state *driver.Info) {
	ctx = context.WithoutCancel(ctx)
	aside, err := v.quarantine(ctx, f.Path, state)
	if err == nil && aside != "" && f.Tag != "" {
		err = v.tidyTag(ctx, f.Repository, f.Tag)
	}
	if err != nil {
		v.Log.Error("what verification found cannot be put aside", zap.String("path", f.Path), zap.Error(err))
		return
	}
	f.Aside = aside
}

// quarantine returns where the object went, or "" if it has changed or gone.
func (v *verification) quarantine(ctx context.Context, path string, state *driver.Info) (string, error) {
	aside := layout.Quarantine + "/" + v.report.Started.Format("20060102T150405.000000000") + path
	err := v.Driver.SetAside(ctx, path, aside)
	if absent(err) || errors.Is(err, driver.ErrExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	now, err := v.Driver.Stat(ctx, aside)
	if err == nil && state != nil && (now.Size != state.Size || !now.Changed.Equal(state.Changed)) {
		return "", v.putBack(ctx, aside, path)
	}
	v.moved = true
	return aside, err
}

// putBack leaves it in the quarantine if something newer is in its place.
func (v *verification) putBack(ctx context.Context, aside, path string) error {
	err := v.Driver.Restore(ctx, aside, path)
	if errors.Is(err, driver.ErrExist) {
		return nil
	}
	return err
}

// tidyTag moves the history of a tag after its link, so that the tag is not
// listed any more.
func (v *verification) tidyTag(ctx context.Context, name oci.Name, tag oci.Tag) error {
	dir := layout.Tag(name, tag)
	for _, alg := range []oci.Algorithm{oci.SHA256, oci.SHA384, oci.SHA512} {
		list := dir + "/index/" + string(alg)
		for e, err := range v.Driver.List(ctx, list, "") {
			if err == nil {
				_, err = v.quarantine(ctx, list+"/"+e.Name+"/link", nil)
			}
			if err != nil && !absent(err) {
				return err
			}
			if err == nil {
				err = v.Driver.Prune(ctx, list+"/"+e.Name)
			}
			if err != nil && !absent(err) {
				return err
			}
		}
		if err := v.Driver.Prune(ctx, list); err != nil {
			return err
		}
	}
	return errors.Join(v.Driver.Prune(ctx, dir+"/index"), v.Driver.Prune(ctx, dir+"/current"), v.Driver.Prune(ctx, dir))
}
