package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// An object that is damaged or leads nowhere is copied into the quarantine, under
// its own key, and then deleted if it still is what was seen. So nothing is lost if
// a repair is interrupted: the next one finds the object again. What a push writes
// meanwhile stays.

// repair quarantines the object of a finding.
func (v *verification) repair(ctx context.Context, f *Finding, seen *storage.Info) {
	ctx = context.WithoutCancel(ctx)
	var history []storage.Info
	err := error(nil)
	if f.Tag != "" {
		history, err = v.history(ctx, f.Repository, f.Tag, seen.Key)
	}
	if err == nil {
		err = v.quarantine(ctx, *seen, history)
	}
	switch {
	case errors.Is(err, storage.ErrConflict) || absent(err):
		v.Log.Info("verification leaves an object that has changed meanwhile", zap.String("path", f.Path))
	case err != nil:
		v.Log.Error("cannot quarantine an object", zap.String("path", f.Path), zap.Error(err))
	default:
		f.Quarantine = v.quarantined(f.Path)
	}
}

// quarantined returns the key to which the object at key is moved.
func (v *verification) quarantined(key string) string {
	return layout.Quarantine + "/" + v.report.Started.Format("20060102T150405.000000000") + key
}

// history returns the objects of a tag other than its link. Without them the tag is not listed any more, by
// distribution either.
func (v *verification) history(ctx context.Context, name oci.Name, tag oci.Tag, link string) (all []storage.Info, err error) {
	for info, err := range v.Store.List(ctx, layout.Tag(name, tag), storage.ListOptions{Flat: true, Names: true}) {
		if err != nil {
			return nil, err
		}
		if info.Key == link {
			continue
		}
		if info, err = v.stat(ctx, info.Key); err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	return all, nil
}

// quarantine copies the objects, deletes the others and then the first, by which the
// next repair finds what an interrupted one has left. What has changed meanwhile
// stays. ErrConflict, ErrNotExist.
func (v *verification) quarantine(ctx context.Context, object storage.Info, others []storage.Info) error {
	all := slices.Concat([]storage.Info{object}, others)
	for _, o := range all {
		if err := v.copy(ctx, o); err != nil {
			return err
		}
	}
	remove := make(storage.Stage, len(all))
	for i, o := range all {
		remove[i] = storage.Change{Key: o.Key, Delete: true, If: storage.IfVersion(o.Version)}
	}
	err := v.Store.Apply(ctx, nil, remove[1:], remove[:1])
	if errors.Is(err, storage.ErrConflict) {
		return errors.Join(err, v.discard(ctx, all))
	}
	return err
}

// discard removes the copies of what was not deleted.
func (v *verification) discard(ctx context.Context, copied []storage.Info) error {
	var remove storage.Stage
	for _, o := range copied {
		if _, err := v.Store.Stat(ctx, o.Key); err == nil {
			remove = append(remove, storage.Change{Key: v.quarantined(o.Key), Delete: true})
		}
	}
	return v.Store.Apply(ctx, nil, remove)
}

// maxSmall is the size up to which an object is copied in one piece.
const maxSmall = 1 << 20

// copy puts a copy of the object into the quarantine, durably.
func (v *verification) copy(ctx context.Context, seen storage.Info) error {
	o, err := v.Store.Open(ctx, seen.Key, 0, -1)
	if err != nil {
		return err
	}
	defer o.Close()
	if o.Version == "" || !unchanged(o.Info, seen) {
		return storage.ErrConflict
	}
	to := v.quarantined(o.Key)
	if o.Size <= maxSmall {
		content, err := io.ReadAll(o)
		if err != nil {
			return err
		}
		return v.Store.Apply(ctx, nil, storage.Stage{{Key: to, Content: content}})
	}
	u, err := v.Store.OpenUpload(ctx, copying, storage.UploadOptions{Create: true, Final: to, Size: o.Size})
	if err != nil {
		return fmt.Errorf("copy to %s: %w", to, err)
	}
	if _, err = io.Copy(u, o); err != nil {
		return fmt.Errorf("copy to %s: %w", to, errors.Join(err, u.Cancel(ctx)))
	}
	if err = v.Store.Apply(ctx, nil, storage.Stage{{Key: to, Upload: u}}); err != nil {
		return errors.Join(err, u.Cancel(ctx))
	}
	return nil
}

// copying is the upload of a large copy. There is one at a time, so that the next
// repair finds what an interrupted one has left.
const copying = layout.Quarantine + "/copying"

// dropCopy removes a copy that was not finished.
func (v *verification) dropCopy(ctx context.Context) error {
	return v.Store.Apply(ctx, nil, storage.Stage{{Key: copying, Delete: true}})
}
