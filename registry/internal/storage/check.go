package storage

import (
	"context"
	"crypto/rand"
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
