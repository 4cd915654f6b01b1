package lease

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"slipway/registry/internal/storage"
)

// guardTime is how long a guard lasts at most.
const guardTime = 15 * time.Second

// Guard keeps all other processes from changing objects, until release is called or the
// deadline has passed: those that begin a section know, and those that began one before
// have ended it. It is for stores that ignore conditions on DELETE. Calls at the same time share
// one guard, which ends with the last of them.
func (l *Coordinator) Guard(ctx context.Context, keys []string) (deadline time.Time, release func(), err error) {
	l.mu.Lock()
	g, first := l.next, false
	if g == nil {
		g, first = &sharedGuard{ready: make(chan struct{})}, true
		l.next = g
	}
	g.keys = append(g.keys, keys...)
	g.users++
	l.mu.Unlock()
	if first {
		l.guarding.Lock() // the keys of others gather meanwhile
		l.mu.Lock()
		l.next = nil
		l.mu.Unlock()
		g.deadline, g.release, g.err = l.guard(context.WithoutCancel(ctx), g.keys, l.guarding.Unlock)
		close(g.ready)
	}
	<-g.ready
	if g.err != nil {
		return time.Time{}, nil, g.err
	}
	return g.deadline, func() {
		l.mu.Lock()
		g.users--
		last := g.users == 0
		l.mu.Unlock()
		if last {
			g.release()
		}
	}, nil
}

// sharedGuard is what calls of Guard at the same time have.
type sharedGuard struct {
	keys  []string
	users int
	ready chan struct{} // closed when what follows is known

	deadline time.Time
	release  func()
	err      error
}

// guard calls published once others can see it, and then waits for them.
func (l *Coordinator) guard(ctx context.Context, keys []string, published func()) (deadline time.Time, release func(), err error) {
	id, set := rand.Text(), hashesOf(keys)
	begun := time.Now()
	epoch, err := l.raise(ctx, func(s *state, now time.Time) error {
		guards := map[string]guard{}
		for other, g := range s.Guards {
			if !now.After(g.Begun.Add(guardTime + granularity + l.o.MaxLate)) {
				guards[other] = g
			}
		}
		begun = time.Now()
		guards[id] = guard{set, now}
		s.Guards = guards
		return nil
	})
	published()
	if err != nil {
		return time.Time{}, nil, err
	}
	release = func() {
		ctx, cancel := context.WithTimeout(context.Background(), guardTime)
		defer cancel()
		l.guarding.Lock()
		// It runs out, too.
		_, _ = l.raise(ctx, func(s *state, _ time.Time) error { delete(s.Guards, id); return nil })
		l.guarding.Unlock()
		_, _ = l.lookNow(ctx)
	}
	deadline = begun.Add(guardTime)
	wait, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if err := l.awaitGuard(wait, epoch); err != nil {
		release()
		if wait.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w: a request of another replica does not end, or its replica has died: %w", storage.ErrUnavailable, storage.ErrTemporary, err)
		}
		return time.Time{}, nil, err
	}
	return deadline, release, nil
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
