package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
	"slipway/registry/internal/storage/object"
)

// Alone is the storage.Coordinator of the only process on a store that ignores conditions. It
// refuses to be another one.
type Alone struct {
	storage.Coordinator // of this process
	l                   *Coordinator

	mu     sync.Mutex
	member *hold // nil = this process is not on the store
	users  int   // of member: who has joined, and locks
	joined bool
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
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	a.joined = true
	return &use{hold: m, a: a, leave: func() { a.joined = false }}, nil
}

// enter makes this process the one on the store, unless it is. It needs a.mu.
func (a *Alone) enter(ctx context.Context) (*hold, error) {
	if a.member != nil {
		select {
		case <-a.member.Lost():
			a.member, a.users = nil, 0 // and with it all that used it
		default:
			a.users++
			return a.member, nil
		}
	}
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
	a.member, a.users = m, 1
	return m, nil
}

// use is a lease that also keeps this process on the store.
type use struct {
	*hold // of the membership
	a     *Alone
	inner storage.Lease // of this process; nil = none
	leave func()
	once  sync.Once
}

// Wanted implements storage.Lease. Who wants to serve is refused until then.
func (u *use) Wanted() bool { return false }

// Release implements storage.Lease.
func (u *use) Release() {
	u.once.Do(func() {
		if u.inner != nil {
			u.inner.Release()
		}
		u.a.mu.Lock()
		defer u.a.mu.Unlock()
		u.leave()
		if u.a.member != u.hold {
			return
		}
		if u.a.users--; u.a.users == 0 {
			u.a.member.Release()
			u.a.member = nil
		}
	})
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

// Lock implements storage.Coordinator: in the process that serves, or where none does. Then
// none may until it is released.
func (a *Alone) Lock(ctx context.Context, name string) (storage.Lease, error) {
	return a.with(ctx, func() (storage.Lease, error) { return a.Coordinator.Lock(ctx, name) })
}

// Exclusive implements storage.Coordinator.
func (a *Alone) Exclusive(ctx context.Context) (storage.Lease, error) {
	return a.with(ctx, func() (storage.Lease, error) {
		if a.joined {
			return nil, fmt.Errorf("somebody has joined: %w", storage.ErrBusy)
		}
		return a.Coordinator.Exclusive(ctx)
	})
}

// with takes a lease of this process while it is on the store.
func (a *Alone) with(ctx context.Context, take func() (storage.Lease, error)) (storage.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	inner, err := take()
	if err != nil {
		if a.users--; a.users == 0 {
			a.member.Release()
			a.member = nil
		}
		return nil, err
	}
	return &use{hold: m, a: a, inner: inner, leave: func() {}}, nil
}
