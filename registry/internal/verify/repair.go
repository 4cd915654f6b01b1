package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

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
	tidy := func() error { return nil }
	if f.Tag != "" {
		tidy = func() error { return v.tidyTag(ctx, f.Repository, f.Tag) }
	}
	aside, err := v.quarantine(ctx, f.Path, state, tidy)
	if err != nil {
		v.Log.Error("what verification found cannot be put aside", zap.String("path", f.Path), zap.Error(err))
		return
	}
	f.Aside = aside
}

// quarantine returns where the object went, or "" if it has changed or gone. It
// goes by way of a place where it is looked at once more, and what goes with it
// is tidied up, in a section: who is killed in between leaves it there for the
// next one to put back, and find again.
func (v *verification) quarantine(ctx context.Context, object string, state *driver.Info, tidy func() error) (string, error) {
	leave, err := v.Driver.Enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	checking, aside := layout.Checking+object, v.aside(object)
	err = v.Driver.SetAside(ctx, object, checking)
	if absent(err) || errors.Is(err, driver.ErrExist) { // another verification has it
		return "", nil
	}
	if err != nil {
		return "", err
	}
	now, err := v.Driver.Stat(ctx, checking)
	if err == nil && state != nil && (now.Size != state.Size || !now.Changed.Equal(state.Changed)) {
		return "", v.putBack(ctx, object)
	}
	if err == nil {
		err = tidy()
	}
	if err == nil {
		err = v.Driver.SetAside(ctx, checking, aside)
	}
	if absent(err) {
		return "", nil // another verification has put it back
	}
	if err != nil {
		return "", errors.Join(err, v.putBack(ctx, object))
	}
	return aside, errors.Join(v.tidy(ctx, path.Dir(checking)), v.Driver.Flush(ctx, path.Dir(object), path.Dir(aside)))
}

// aside is where the object at a path goes.
func (v *verification) aside(object string) string {
	return layout.Quarantine + "/" + v.report.Started.Format("20060102T150405.000000000") + object
}

// putBack moves an object back into its place. If something newer is there, it
// goes into the quarantine.
func (v *verification) putBack(ctx context.Context, object string) error {
	err := v.Driver.Restore(ctx, layout.Checking+object, object)
	if errors.Is(err, driver.ErrExist) {
		err = v.Driver.SetAside(ctx, layout.Checking+object, v.aside(object))
	}
	if err != nil && !absent(err) {
		return err
	}
	return v.tidy(ctx, path.Dir(layout.Checking+object))
}

// tidy removes the directories that a look once more needed.
func (v *verification) tidy(ctx context.Context, dir string) error {
	for ; dir != path.Dir(layout.Checking); dir = path.Dir(dir) {
		if err := v.Driver.Prune(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// Recover puts back what a verification had in its hands that was killed. One
// that lives has something there in a section only.
func Recover(ctx context.Context, d driver.Driver) error {
	v := &verification{Options: Options{Driver: d}}
	v.report.Started = d.Now().UTC()
	return v.recover(ctx)
}

// maxHeld bounds how much is put back in one go, maxWait the wait for those who
// may have it in their hands: one of them may be stopped.
const (
	maxHeld = 10_000
	maxWait = 10 * time.Minute
	maxTold = 100 // errors
)

func (v *verification) recover(ctx context.Context) error {
	held := map[string]time.Time{} // when each object came there
	if err := v.held(ctx, "", held); err != nil || len(held) == 0 {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	waited := v.Driver.Barrier(wait)
	var errs []error
	for _, object := range slices.Sorted(maps.Keys(held)) {
		if err := v.putBackFound(ctx, object, held[object], waited); err != nil && len(errs) < maxTold {
			errs = append(errs, fmt.Errorf("%s: %w", object, err))
		}
	}
	return errors.Join(errs...)
}

// putBackFound puts an object back if it is the one that was found, and nobody
// who lives has it. waited is why those could not be waited for who might: then its
// age has to say so.
func (v *verification) putBackFound(ctx context.Context, object string, since time.Time, waited error) error {
	info, err := v.Driver.Stat(ctx, layout.Checking+object)
	if absent(err) || err == nil && !info.Moved.Equal(since) {
		return nil
	}
	if err == nil && waited != nil && v.Driver.Now().Sub(since) <= maxWait {
		err = waited
	}
	if err == nil {
		err = v.putBack(ctx, object)
	}
	return err
}

// held finds what verifications have in their hands, below dir.
func (v *verification) held(ctx context.Context, dir string, held map[string]time.Time) error {
	for e, err := range v.Driver.List(ctx, layout.Checking+dir, "") {
		child := dir + "/" + e.Name
		switch {
		case absent(err) || len(held) == maxHeld:
			return nil
		case err != nil:
			return err
		case e.Dir:
			if err := v.held(ctx, child, held); err != nil {
				return err
			}
			continue
		}
		info, err := v.Driver.Stat(ctx, layout.Checking+child)
		if err == nil {
			held[child] = info.Moved
		} else if !absent(err) {
			return err
		}
	}
	return nil
}

// tidyTag moves the history of a tag whose link is being put aside, so that the
// tag is not listed any more, by distribution either.
func (v *verification) tidyTag(ctx context.Context, name oci.Name, tag oci.Tag) error {
	dir := layout.Tag(name, tag)
	for _, alg := range []oci.Algorithm{oci.SHA256, oci.SHA384, oci.SHA512} {
		list := dir + "/index/" + string(alg)
		for e, err := range v.Driver.List(ctx, list, "") {
			if err == nil {
				_, err = v.quarantine(ctx, list+"/"+e.Name+"/link", nil, func() error { return nil })
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
