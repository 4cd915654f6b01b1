package lease

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"slipway/registry/internal/storage"
)

// guardTime is how long a guard lasts at most.
const guardTime = 15 * time.Second

// Guard keeps all other processes from changing objects, until release is called or the
// deadline has passed: those that begin a section know, and those that began one before
// have ended it. It is for stores that ignore conditions on DELETE. Calls at the same time share
// one guard, which ends some time after the last of them: release does not wait.
func (l *Coordinator) Guard(ctx context.Context, keys []string) (deadline time.Time, release func(), err error) {
	l.mu.Lock()
	g := l.next
	if g == nil {
		g = &sharedGuard{id: rand.Text(), ready: make(chan struct{})}
		l.next = g
	}
	g.keys = append(g.keys, keys...)
	g.users++
	first := g.users == 1
	l.mu.Unlock()
	if first {
		l.guard(context.WithoutCancel(ctx), g)
	}
	<-g.ready
	if g.err != nil {
		return time.Time{}, nil, g.err
	}
	return g.deadline, func() { l.release(g) }, nil
}

// sharedGuard is what calls of Guard at the same time have.
type sharedGuard struct {
	id    string
	keys  []string
	users int
	ready chan struct{} // closed when what follows is known

	deadline time.Time
	err      error
}

// guard publishes g and waits until others know.
func (l *Coordinator) guard(ctx context.Context, g *sharedGuard) {
	defer close(g.ready)
	l.guarding.Lock() // the keys of others gather meanwhile
	l.mu.Lock()
	l.next = nil
	l.mu.Unlock()
	var begun time.Time
	epoch, err := l.raiseGuards(ctx, func(s *state, at clock) {
		s.Guards[g.id], begun = guard{hashesOf(g.keys), at.store}, at.own
	})
	l.guarding.Unlock()
	if err != nil {
		g.err = err
		return
	}
	g.deadline = begun.Add(guardTime)
	wait, cancel := context.WithDeadline(ctx, g.deadline)
	defer cancel()
	if err := l.awaitGuard(wait, epoch); err != nil {
		l.withdraw(g)
		if wait.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w: a request of another replica does not end, or its replica has died: %w", storage.ErrUnavailable, storage.ErrTemporary, err)
		}
		g.err = err
	}
}

// raiseGuards makes change, and withdraws what was released. It needs guarding.
func (l *Coordinator) raiseGuards(ctx context.Context, change func(*state, clock)) (uint64, error) {
	l.mu.Lock()
	over := l.over
	l.over = nil
	l.mu.Unlock()
	return l.raise(ctx, func(s *state, at clock) error {
		guards := map[string]guard{}
		for id, g := range s.Guards {
			if !slices.Contains(over, id) && !at.store.After(g.Begun.Add(guardTime+granularity+l.o.MaxLate)) {
				guards[id] = g
			}
		}
		s.Guards = guards
		change(s, at)
		return nil
	})
}

// release ends one use of g. After the last one the next guard withdraws it, if that is soon.
func (l *Coordinator) release(g *sharedGuard) {
	l.mu.Lock()
	g.users--
	last := g.users == 0
	l.mu.Unlock()
	switch {
	case last && l.stopped.Err() == nil:
		l.running.Go(func() { l.withdraw(g) })
	case last:
		l.withdraw(g)
	}
}

// withdraw lets others change what g kept them from.
func (l *Coordinator) withdraw(g *sharedGuard) {
	ctx, cancel := context.WithTimeout(context.Background(), guardTime)
	defer cancel()
	l.mu.Lock()
	l.over = append(l.over, g.id)
	l.mu.Unlock()
	l.guarding.Lock()
	l.mu.Lock()
	still := slices.Contains(l.over, g.id)
	l.mu.Unlock()
	if still {
		_, _ = l.raiseGuards(ctx, func(*state, clock) {}) // it runs out, too
	}
	l.guarding.Unlock()
	_, _ = l.lookNow(ctx)
}

// awaitGuard waits until all know of a guard, and the sections have ended that began before.
func (l *Coordinator) awaitGuard(ctx context.Context, epoch uint64) error {
	owner, err := l.lookNow(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	var before []*section
	for s := range l.sections {
		if s.seen < epoch {
			before = append(before, s)
		}
	}
	l.mu.Unlock()
	if err := l.await(ctx, func(w record) bool { return w.Owner == owner || w.Drained >= epoch }); err != nil {
		return err
	}
	return l.awaitOwn(ctx, before)
}
