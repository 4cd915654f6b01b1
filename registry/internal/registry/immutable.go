package registry

import (
	"context"
	"errors"
	"fmt"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/storage"
)

// ErrImmutable is inside the DENIED error of a change to an immutable tag.
var ErrImmutable = errors.New("the tag is immutable")

// TagRule selects tags of repositories.
type TagRule struct {
	Repositories pattern.Names
	Tags         pattern.Tags
}

// Immutable says whether the tag, once it is there, is neither moved nor
// deleted.
func (r Repository) Immutable(tag oci.Tag) bool {
	for i := range r.reg.immutable {
		if rule := &r.reg.immutable[i]; rule.Tags.Match(tag) && rule.Repositories.Match(r.name) {
			return true
		}
	}
	return false
}

// setOnce gives the move to d of a tag that stays once it is set its condition, so that of two
// pushes, by whatever processes, one is the first. The tag stays if it points at d
// already; DENIED if at anything else. A link that holds no digest is overwritten.
func (r Repository) setOnce(ctx context.Context, move *storage.Change, d oci.Digest, tag oci.Tag) (stays bool, err error) {
	now, err := r.readTag(ctx, tag)
	switch {
	case absent(err):
		move.If = storage.IfAbsent()
		return false, nil
	case isBadLink(err):
		if now.version != "" {
			move.If = storage.IfVersion(now.version)
		}
		return false, nil
	case err != nil:
		return false, fault(err)
	case now.digest != d && !r.Immutable(tag):
		return false, &oci.Error{
			Code: oci.CodeDenied, Detail: map[string]string{"tag": string(tag)},
			Message: fmt.Sprintf("the tag %s exists and moving it needs the right tag-move; push under another tag", tag),
		}
	case now.digest != d:
		return false, denied(fmt.Sprintf("the tag %s is immutable and stays at %s; push under another tag", tag, now.digest), tag)
	}
	return true, nil
}

// refuseRemoval is nil unless the tag is immutable.
func (r Repository) refuseRemoval(tag oci.Tag) error {
	if r.Immutable(tag) {
		return denied(fmt.Sprintf("the tag %s is immutable and cannot be deleted", tag), tag)
	}
	return nil
}

func denied(message string, tag oci.Tag) error {
	return &oci.Error{Code: oci.CodeDenied, Message: message, Detail: map[string]string{"tag": string(tag)}, Err: ErrImmutable}
}
