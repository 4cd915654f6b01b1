package storage

import (
	"context"
	"crypto/rand"
	"errors"
)

// Check proves that reading works and, if write is true, that a small object can be
// written, made durable and deleted below prefix.
func Check(ctx context.Context, s Store, prefix string, write bool) error {
	for _, err := range s.List(ctx, prefix, ListOptions{Names: true, Max: 1}) {
		if err != nil {
			return err
		}
		break
	}
	if !write {
		return nil
	}
	key := prefix + "/" + rand.Text()
	if err := s.Apply(ctx, nil, Stage{{Key: key, Content: []byte("check")}}); err != nil {
		return err
	}
	return s.Apply(ctx, nil, Stage{{Key: key, Delete: true}})
}

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
