package object

import (
	"context"
	"errors"
	"path"
	"strings"

	"slipway/registry/internal/storage"
)

// maxRewritten bounds what is read to be written again, on a store that can't renew otherwise.
const maxRewritten = 64 << 10

// stamp is an empty object whose date is that of the object at key, if it is newer.
func stamp(key string) string { return path.Dir(key) + "/." + path.Base(key) + ".stamp" }

// stamped reports whether there may be a stamp beside an object. Amazon dates a composed object,
// whose ETag has a hyphen, by the beginning of its composition, and a copy of it may be as slow as an upload.
func (s *Store) stamped(size int64, version string) bool {
	return s.limits.ComposedEarly && strings.Contains(version, "-") || s.limits.NoTouch && size > maxRewritten
}

// dated is Head with the date of the stamp.
func (s *Store) dated(ctx context.Context, key string) (Info, error) {
	info, err := s.Head(ctx, key)
	if err != nil || !s.stamped(info.Size, info.Version) {
		return info, err
	}
	mark, err := s.Head(ctx, stamp(key))
	if err == nil && mark.Modified.After(info.Modified) {
		info.Modified = mark.Modified
	}
	return info, unlessAbsent(err)
}

// renew makes Modified of an object now. It never creates one.
func (s *Store) renew(ctx context.Context, key string, how *WriteOptions) error {
	for range 8 {
		info, err := s.Head(ctx, key)
		if err != nil {
			return err
		}
		if v := how.If.Version(); v != "" && v != info.Version {
			return storage.ErrConflict
		}
		again := &WriteOptions{Before: how.Before}
		switch {
		case s.stamped(info.Size, info.Version):
			_, err = s.Put(ctx, stamp(key), nil, again)
		case s.limits.NoTouch:
			again.If = storage.IfVersion(info.Version)
			err = s.rewrite(ctx, key, again)
		default: // a conflict with an earlier try of its own is another round
			err = s.touch(ctx, key, info.Version, again)
		}
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return unavailable(storage.ErrConflict)
}

// rewrite writes an object again.
func (s *Store) rewrite(ctx context.Context, key string, how *WriteOptions) error {
	content, info, err := s.Get(ctx, key, maxRewritten)
	if err != nil {
		return err
	}
	if info.Version != how.If.Version() {
		return storage.ErrConflict
	}
	if !s.limits.ConditionalPut {
		how.If = storage.Condition{}
	}
	_, err = s.Put(ctx, key, content, how)
	return err
}
