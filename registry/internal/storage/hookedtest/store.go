// Package hookedtest lets tests see, delay and fail the operations of a store.
package hookedtest

import (
	"context"
	"iter"

	"slipway/registry/internal/storage"
)

// Op is an operation that reads.
type Op string

// The operations that read.
const (
	Stat Op = "Stat"
	Open Op = "Open"
	List Op = "List"
)

// Store calls its functions ahead of the operations of the store in it. If one returns an error, that is the
// result of the operation, which has no effect. They may be nil, and may be called concurrently.
type Store struct {
	storage.Store

	// OnRead is called ahead of Stat, Open and List, with their key or prefix.
	OnRead func(ctx context.Context, op Op, key string) error
	// OnApply is called ahead of Apply.
	OnApply func(stages []storage.Stage) error
}

func (s *Store) read(ctx context.Context, op Op, key string) error {
	if s.OnRead == nil {
		return nil
	}
	return s.OnRead(ctx, op, key)
}

// Stat implements [storage.Store].
func (s *Store) Stat(ctx context.Context, key string) (storage.Info, error) {
	if err := s.read(ctx, Stat, key); err != nil {
		return storage.Info{}, err
	}
	return s.Store.Stat(ctx, key)
}

// Open implements [storage.Store].
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if err := s.read(ctx, Open, key); err != nil {
		return nil, err
	}
	return s.Store.Open(ctx, key, offset, length)
}

// List implements [storage.Store].
func (s *Store) List(ctx context.Context, prefix string, o storage.ListOptions) iter.Seq2[storage.Info, error] {
	if err := s.read(ctx, List, prefix); err != nil {
		return func(yield func(storage.Info, error) bool) { yield(storage.Info{}, err) }
	}
	return s.Store.List(ctx, prefix, o)
}

// Apply implements [storage.Store].
func (s *Store) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	if s.OnApply != nil {
		if err := s.OnApply(stages); err != nil {
			return err
		}
	}
	return s.Store.Apply(ctx, a, stages...)
}
