package lease

import (
	"context"
	"errors"
	"fmt"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
	"slipway/registry/internal/storage/object"
)

// Alone is the storage.Coordinator of the only process on a store that ignores conditions. It
// refuses to be another one.
type Alone struct {
	storage.Coordinator // of this process
	l                   *Coordinator
	joined              bool
}

// ErrNotAlone means that another process serves a store that only one can serve.
var ErrNotAlone = errors.New("another registry serves this bucket, and the store ignores conditional requests: only one may, so stop the other (one that died counts for five minutes)")

// NewAlone returns a coordinator. It sends nothing until it is used.
func NewAlone(c *object.Client, o Options) *Alone {
	return &Alone{Coordinator: memory.New(), l: New(c, o)}
}

// Close leaves.
func (a *Alone) Close() { a.l.Close() }

// Join implements storage.Coordinator. Of two that join at the same time, at most one does.
func (a *Alone) Join(ctx context.Context) (storage.Lease, error) {
	if err := a.others(ctx, 0); err != nil {
		return nil, err
	}
	m := a.l.hold(members+"alone-", a.l.o.Member)
	m.key += m.owner
	if err := m.write(ctx, m.owner); err != nil {
		return nil, err
	}
	if err := a.others(ctx, 1); err != nil {
		m.Release()
		return nil, err
	}
	m.keep()
	a.joined = true
	return m, nil
}

// others is an error if more than so many have joined.
func (a *Alone) others(ctx context.Context, most int) error {
	all, now, err := a.l.c.All(ctx, members)
	if err != nil {
		return err
	}
	for _, o := range all {
		if now.IsZero() || !a.l.dead(o.Modified, now, a.l.o.Member) {
			most--
		}
	}
	if most < 0 {
		return fmt.Errorf("%w: %w", storage.ErrBusy, ErrNotAlone)
	}
	return nil
}

// Lock implements storage.Coordinator: in the process that serves, or where none does.
func (a *Alone) Lock(ctx context.Context, name string) (storage.Lease, error) {
	if !a.joined {
		if err := a.others(ctx, 0); err != nil {
			return nil, err
		}
	}
	return a.Coordinator.Lock(ctx, name)
}

// Exclusive implements storage.Coordinator.
func (a *Alone) Exclusive(ctx context.Context) (storage.Lease, error) {
	if err := a.others(ctx, 0); err != nil {
		return nil, err
	}
	return a.Coordinator.Exclusive(ctx)
}
