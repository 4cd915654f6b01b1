package storage

import (
	"context"
	"errors"
)

// Rely describes the object at key like Stat, and renews it first if the attempt would
// find it stale. That this process may not write is no error (see Attempt.Denied). A nil
// attempt renews nothing.
func Rely(ctx context.Context, s Store, a *Attempt, key string) (Info, error) {
	info, err := s.Stat(ctx, key)
	if err != nil || a == nil {
		return info, err
	}
	if a.rely(key); !a.Stale(info) {
		return info, nil
	}
	err = s.Apply(ctx, a, Stage{{Key: key, Renew: true}})
	if errors.Is(err, ErrReadOnly) || errors.Is(err, ErrDenied) {
		a.deny(err)
		err = nil
	}
	return info, err
}
