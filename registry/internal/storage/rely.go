package storage

import (
	"context"
	"errors"
)

// Rely describes the object at key like Stat, and then renews it if the attempt finds it stale;
// the date returned is the one from before. If a collection is deleting the object, Rely first waits
// until that has ended; the error wraps ErrTemporary if it takes too long. That this process can't
// write is not an error (see Attempt.Denied). A nil attempt neither waits nor renews.
func Rely(ctx context.Context, s Store, a *Attempt, key string) (Info, error) {
	if a != nil && a.await != nil {
		if err := a.await(ctx, key); err != nil {
			return Info{}, err
		}
	}
	info, err := s.Stat(ctx, key)
	if err != nil || a == nil || !a.Stale(info) {
		return info, err
	}
	err = s.Apply(ctx, a, Stage{{Key: key, Renew: true}})
	if errors.Is(err, ErrReadOnly) || errors.Is(err, ErrDenied) || errors.Is(err, ErrNoSpace) {
		a.deny(err)
		err = nil
	}
	return info, err
}
