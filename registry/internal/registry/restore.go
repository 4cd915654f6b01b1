package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/tags"
	"slipway/registry/internal/storage"
)

// Restored describes what a restore did.
type Restored struct {
	Manifests []oci.Descriptor       `json:"manifests"`        // that are back, those of the tags among them; without annotations
	Tags      map[oci.Tag]oci.Digest `json:"tags"`             // that were set
	Left      map[oci.Tag]oci.Digest `json:"left,omitempty"`   // tags that exist and point elsewhere: they stay there
	Failed    map[oci.Digest]string  `json:"failed,omitempty"` // manifests that stay deleted, and why
}

// Selection selects what to restore. The zero value is the whole repository.
type Selection struct {
	Deletion string     `json:"deletion"` // the ID of the deletion, "" is the latest that matches
	Tag      oci.Tag    `json:"tag"`      // restore only this tag, with its manifest
	Digest   oci.Digest `json:"digest"`   // restore only this manifest, with the tags that pointed at it
}

// Restore undoes a deletion, or what the selection says of it. With a tag and a digest it points the
// tag at a manifest that the repository has, or that was deleted and can be restored, wherever the
// tag points now.
//
// A manifest comes back like a push: only with all that it needs. A manifest that can't come back keeps no
// other from it; if none comes back, its error is returned: MANIFEST_BLOB_UNKNOWN if what it needs was
// freed meanwhile, MANIFEST_UNKNOWN if nothing matches or the manifest was freed, DENIED if the tag
// exists and points elsewhere.
func (r Repository) Restore(ctx context.Context, s Selection) (Restored, error) {
	if err := r.writable(); err != nil {
		return Restored{}, err
	}
	trash := map[oci.Digest]bool{} // manifests that were deleted and can be restored
	var chosen *Deletion           // of which something is not in place
	moves := s.Tag != "" && s.Digest != ""
	for d, err := range r.deletions(ctx, 0) {
		if err == nil && chosen == nil && !moves && s.matches(d) {
			var inPlace bool
			if inPlace, err = r.inPlace(ctx, d); !inPlace {
				chosen = d
			}
		}
		if err != nil {
			return Restored{}, err
		}
		for _, m := range d.Manifests {
			trash[m] = true
		}
	}
	x := r.newRestore(trash)
	ctx, cancel := detach(ctx)
	defer cancel()
	if moves {
		err := x.put(ctx, s.Digest, s.Tag)
		return x.restored, err
	}
	if chosen == nil {
		return Restored{}, oci.Explain(oci.CodeManifestUnknown, "nothing that was deleted from "+string(r.name)+" and can be restored matches")
	}
	x.keepsTags = true
	err := x.undo(ctx, chosen, s)
	if err == nil || len(x.restored.Manifests) > 0 {
		x.settle(ctx, chosen)
	}
	return x.restored, err
}

// matches reports whether the selection may mean the deletion.
func (s *Selection) matches(d *Deletion) bool {
	if s.Deletion != "" && s.Deletion != d.ID {
		return false
	}
	switch {
	case s.Tag != "":
		_, matches := d.Tags[s.Tag]
		return matches
	case s.Digest != "":
		return slices.Contains(d.Manifests, s.Digest)
	default:
		return d.Repository || s.Deletion != ""
	}
}

// restore is one restore under way.
type restore struct {
	Repository
	trash    map[oci.Digest]bool
	done     map[oci.Digest]bool
	restored Restored
}

func (r Repository) newRestore(trash map[oci.Digest]bool) *restore {
	return &restore{Repository: r, trash: trash, done: map[oci.Digest]bool{}, restored: Restored{
		Tags: map[oci.Tag]oci.Digest{}, Left: map[oci.Tag]oci.Digest{}, Failed: map[oci.Digest]string{},
	}}
}

// undo restores what is selected of a deletion.
func (x *restore) undo(ctx context.Context, d *Deletion, s Selection) error {
	targets := map[oci.Digest][]oci.Tag{}
	for _, m := range d.Manifests {
		if s.Tag == "" && (s.Digest == "" || s.Digest == m) {
			targets[m] = nil
		}
	}
	for tag, target := range d.Tags {
		if s.Tag != "" && s.Tag != tag || s.Digest != "" && s.Digest != target {
			continue
		}
		switch p, err := x.reg.tags.Read(ctx, x.name, tag); {
		case err != nil && !absent(err) && !tags.IsBadLink(err):
			return err
		case err == nil && p.Digest != target && s.Tag != "":
			return &oci.Error{
				Code: oci.CodeDenied, Detail: map[string]string{"tag": string(tag), "digest": string(p.Digest)},
				Message: fmt.Sprintf("the tag %s exists and points at %s; to move it to what was deleted, name %[1]s and %s", tag, p.Digest, target),
			}
		case err == nil && p.Digest != target:
			x.restored.Left[tag] = p.Digest
		default:
			targets[target] = append(targets[target], tag)
		}
	}
	var first error
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		err := Fault(x.put(ctx, target, targets[target]...))
		if err == nil {
			continue
		}
		if ctx.Err() != nil || oci.HasCode(err, oci.CodeUnavailable) || errors.Is(err, storage.ErrNoSpace) {
			return err // the others would fail as well
		}
		first = cmp.Or(first, err)
		x.restored.Failed[target] = reason(err)
		x.reg.log.Warn("cannot restore a manifest", zap.String("repository", string(x.name)), zap.String("digest", string(target)), zap.Error(err))
	}
	if len(x.restored.Manifests) > 0 {
		return nil
	}
	return first
}

// reason returns what a client may read of the first of the failures in err.
func reason(err error) string {
	var one *oci.Error
	if several := oci.Errors(nil); errors.As(err, &several) {
		one = several[0]
	} else if !errors.As(err, &one) {
		return ""
	}
	text := one.Text()
	if detail, ok := one.Detail.(string); ok && detail != text {
		text += ": " + detail
	}
	return text
}

// put puts a manifest in place again and points the tags at it. What the manifest lists and was
// deleted, too, comes first.
func (x *restore) put(ctx context.Context, d oci.Digest, to ...oci.Tag) error {
	err := x.revision(ctx, d)
	if err == nil && len(to) == 0 {
		return nil
	}
	if err != nil && !absent(err) {
		return err
	}
	if absent(err) && !x.trash[d] {
		return x.revisionUnknown(d)
	}
	parts, err := x.deletedParts(ctx, d)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if !x.done[part] {
			x.done[part] = true
			if err := x.put(ctx, part); err != nil {
				return err
			}
		}
	}
	m, parsed, err := x.read(ctx, d) // once more: indexes may lie deep in each other, and memory has no room for all of them
	if err != nil {
		return err
	}
	err = x.try(ctx, func(r Repository) error {
		return r.storeManifest(ctx, d, m.Bytes, to, func() error {
			return r.checkReferences(ctx, parsed, func() bool { return true })
		})
	})
	if err != nil {
		return err
	}
	back := m.Descriptor
	back.Annotations = nil // which may be as large as the manifest
	x.restored.Manifests = append(x.restored.Manifests, back)
	for _, tag := range to {
		x.restored.Tags[tag] = d
	}
	return nil
}

// read returns a manifest that was deleted, if the caller may push one of its class.
func (x *restore) read(ctx context.Context, d oci.Digest) (*Manifest, *oci.Manifest, error) {
	m, err := x.reg.content(ctx, d)
	if absent(err) || errors.Is(err, ErrDamaged) {
		return nil, nil, &oci.Error{Code: oci.CodeManifestUnknown, Detail: map[string]string{"digest": string(d)}, Message: "the bytes of the manifest are gone; push it again", Err: err}
	}
	if err != nil {
		return nil, nil, err
	}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err == nil {
		err = x.reg.opts.Validation.CheckClass(parsed, x.classes)
	}
	return m, parsed, err
}

// deletedParts returns what a manifest lists and was deleted, too.
func (x *restore) deletedParts(ctx context.Context, d oci.Digest) (parts []oci.Digest, err error) {
	_, parsed, err := x.read(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, part := range slices.Concat(parsed.Manifests, parsed.Layers) {
		if x.trash[part.Digest] {
			parts = append(parts, part.Digest)
		}
	}
	return parts, nil
}

// settle takes what is in place again out of the record of the deletion.
func (x *restore) settle(ctx context.Context, d *Deletion) {
	was := d.Key(x.name)
	back := map[oci.Digest]bool{}
	for _, m := range x.restored.Manifests {
		back[m.Digest] = true
	}
	d.Manifests = slices.DeleteFunc(d.Manifests, func(m oci.Digest) bool { return back[m] })
	maps.DeleteFunc(d.Tags, func(tag oci.Tag, target oci.Digest) bool { return x.restored.Tags[tag] == target })
	var rest, removal storage.Stage
	if len(d.Tags)+len(d.Manifests) > 0 {
		rest = storage.Stage{{Key: d.Key(x.name), Content: d.Encode()}}
	}
	if rest == nil || rest[0].Key != was {
		removal = storage.Stage{{Key: was, Delete: true}}
	}
	if err := x.apply(ctx, rest, removal); err != nil {
		x.reg.log.Warn("cannot take what was restored out of the record of its deletion; it goes when its time is over",
			zap.String("repository", string(x.name)), zap.String("deletion", d.ID), zap.Error(err))
	}
}
