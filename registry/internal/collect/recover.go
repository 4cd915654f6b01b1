package collect

import (
	"context"

	"slipway/registry/internal/layout"
)

// recover looks through the links that a killed run has left aside. It may have
// died between setting one aside and finding that a client was promised it in
// that very moment, so those that a client relies on are moved back. What else
// is there counts as set aside in this run.
func (r *run) recover(ctx context.Context) error {
	return r.recoverBelow(ctx, layout.Repositories)
}

func (r *run) recoverBelow(ctx context.Context, dir string) error {
	for e, err := range r.Driver.List(ctx, layout.AsideDir(dir), "") {
		if err == nil {
			err = r.pace.step(ctx)
		}
		if err == nil && e.Dir {
			err = r.recoverBelow(ctx, dir+"/"+e.Name)
		} else if object, ok := layout.FromAside(e.Name, "link"); err == nil && ok {
			err = r.recoverLink(ctx, dir+"/"+object+"/link")
		}
		if err != nil && !absent(err) {
			return err
		}
	}
	return nil
}

func (r *run) recoverLink(ctx context.Context, path string) error {
	info, err := r.Driver.Stat(ctx, layout.Aside(path))
	if err != nil || !r.relied(info.Changed) {
		return err
	}
	return r.restore(ctx, path)
}
