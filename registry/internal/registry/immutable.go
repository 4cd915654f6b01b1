package registry

import (
	"context"
	"errors"
	"fmt"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
)

// ErrImmutable is inside the DENIED error of a change to a tag that stays what
// it is.
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

// lockForPush lets pushes run beside each other, but for those of an immutable
// tag: of two that come at the same time, one is the first.
func (r Repository) lockForPush(tags []oci.Tag) (unlock func()) {
	mu := r.lock()
	for _, tag := range tags {
		if r.Immutable(tag) {
			mu.Lock()
			return mu.Unlock
		}
	}
	mu.RLock()
	return mu.RUnlock
}

// refuseMove is nil unless one of the tags is immutable and points at anything
// but d. A link that cannot be read holds nobody up.
func (r Repository) refuseMove(ctx context.Context, d oci.Digest, tags []oci.Tag) error {
	for _, tag := range tags {
		if !r.Immutable(tag) {
			continue
		}
		now, err := r.reg.readLinkTwice(ctx, layout.TagCurrent(r.name, tag), layout.ExpiringTag(r.name, tag))
		if absent(err) || isBadLink(err) {
			continue
		}
		if err != nil {
			return fault(err)
		}
		if now != d {
			return denied(fmt.Sprintf("the tag %s is immutable and stays at %s; push under another tag", tag, now), tag)
		}
	}
	return nil
}

// refuseRemoval is nil unless one of the tags is immutable.
func (r Repository) refuseRemoval(tags ...oci.Tag) error {
	for _, tag := range tags {
		if r.Immutable(tag) {
			return denied(fmt.Sprintf("the tag %s is immutable and cannot be deleted", tag), tag)
		}
	}
	return nil
}

func denied(message string, tag oci.Tag) error {
	return &oci.Error{Code: oci.CodeDenied, Message: message, Detail: map[string]string{"tag": string(tag)}, Err: ErrImmutable}
}
