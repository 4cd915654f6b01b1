package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry/tags"
	"slipway/registry/internal/storage"
)

// Page describes what else there is to know about a page of a list.
type Page struct {
	Next    string // what the next page begins after, "" on the last one
	Warning string // that a client is told, "" if there is none
}

// Tags lists at most n tags (all, if n < 0) strictly after last, sorted
// bytewise. Callers must not change the slice. A repository without tags has an empty
// list; NAME_UNKNOWN if there is none.
func (r Repository) Tags(ctx context.Context, n int, last string) (list []string, page Page, err error) {
	if list, page.Next, err = r.reg.tags.List(ctx, r.name, n, last); err != nil {
		return nil, Page{}, err
	}
	if len(list) == 0 { // manifests may have been pushed by digest only, or all tags were deleted
		if known, err := r.known(ctx); err != nil {
			return nil, Page{}, err
		} else if !known {
			return nil, Page{}, r.nameUnknown()
		}
	}
	return list, page, nil
}

// resolve reads what a tag points at.
func (r Repository) resolve(ctx context.Context, tag oci.Tag) (oci.Digest, error) {
	p, err := r.reg.tags.Read(ctx, r.name, tag)
	if err == nil {
		return p.Digest, nil
	}
	if tags.IsBadLink(err) {
		r.reg.log.Warn("cannot read the link of a tag", zap.String("repository", string(r.name)), zap.String("tag", string(tag)), zap.Error(err))
		return "", r.tagUnknown(tag)
	}
	if absent(err) {
		return "", r.unknown(ctx, r.tagUnknown(tag))
	}
	return "", err
}

// TagTarget returns the manifest that a tag points at; ok is false if there is no such tag, or nobody can
// tell.
func (r Repository) TagTarget(ctx context.Context, tag oci.Tag) (d oci.Digest, ok bool) {
	p, err := r.reg.tags.Read(ctx, r.name, tag)
	return p.Digest, err == nil
}

// movePointers returns the changes that make the tags point at d: all, or none if one is immutable
// and points at something else.
func (r Repository) movePointers(ctx context.Context, d oci.Digest, to []oci.Tag) (storage.Stage, error) {
	var moves storage.Stage
	for _, tag := range to {
		// Not like other links: distribution 2.8 moves a tag by writing into this file.
		move := storage.Change{Key: layout.TagCurrent(r.name, tag), Content: layout.Link(d)}
		if !r.filler && (r.keepsTags || r.Immutable(tag)) {
			stays, err := r.setOnce(ctx, &move, d, tag)
			if err != nil {
				return nil, err
			}
			if stays {
				continue
			}
		}
		moves = append(moves, move)
	}
	return moves, nil
}

func (r Repository) tagUnknown(tag oci.Tag) *oci.Error {
	return oci.NewError(oci.CodeManifestUnknown, "unknown tag="+string(tag))
}

// ErrImmutable is inside the DENIED error of a change to an immutable tag.
var ErrImmutable = errors.New("the tag is immutable")

// TagRule selects tags of repositories.
type TagRule struct {
	Repositories pattern.Names
	Tags         pattern.Tags
}

// Immutable reports whether the tag, once it is there, is neither moved nor
// deleted.
func (r Repository) Immutable(tag oci.Tag) bool { return r.ImmutableRule(tag) >= 0 }

// ImmutableRule returns the first of the rules that make the tag immutable, counted from 0; -1 if none
// does.
func (r Repository) ImmutableRule(tag oci.Tag) int {
	return slices.IndexFunc(r.reg.opts.Immutable, func(rule TagRule) bool { return rule.Tags.Match(tag) && rule.Repositories.Match(r.name) })
}

// setOnce gives the move to d of a tag that stays once it is set its condition, so that of two
// pushes, by whatever processes, one is the first. The tag stays if it points at d
// already; DENIED if at anything else. A link that holds no digest is overwritten.
func (r Repository) setOnce(ctx context.Context, move *storage.Change, d oci.Digest, tag oci.Tag) (stays bool, err error) {
	now, err := r.reg.tags.Read(ctx, r.name, tag)
	switch {
	case absent(err):
		move.If = storage.IfAbsent()
		return false, nil
	case tags.IsBadLink(err):
		if now.Version != "" {
			move.If = storage.IfVersion(now.Version)
		}
		return false, nil
	case err != nil:
		return false, err
	case now.Digest != d && !r.Immutable(tag):
		return false, &oci.Error{
			Code: oci.CodeDenied, Detail: map[string]string{"tag": string(tag)},
			Message: fmt.Sprintf("the tag %s exists and moving it needs the right tag-move; push under another tag", tag),
		}
	case now.Digest != d:
		return false, denied(fmt.Sprintf("the tag %s is immutable and stays at %s; push under another tag", tag, now.Digest), tag)
	}
	return true, nil
}

// refuseRemoval is nil unless one of the tags is immutable.
func (r Repository) refuseRemoval(all ...oci.Tag) error {
	for _, tag := range all {
		if r.Immutable(tag) {
			return denied(fmt.Sprintf("the tag %s is immutable and cannot be deleted", tag), tag)
		}
	}
	return nil
}

func denied(message string, tag oci.Tag) error {
	return &oci.Error{Code: oci.CodeDenied, Message: message, Detail: map[string]string{"tag": string(tag)}, Err: ErrImmutable}
}
