package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// held is the object of a lock or a membership. Owner is "" when it was released: not every
// store deletes by condition.
type held struct{ Owner string }

// lockHeld returns who holds a lock, "" if nobody does, or nobody who can still have
// a request under way.
func (l *Coordinator) lockHeld(ctx context.Context, name string) (owner string, err error) {
	owner, _, err = l.lock(ctx, name)
	return owner, err
}

func (l *Coordinator) lock(ctx context.Context, name string) (owner, version string, err error) {
	var h held
	info, err := l.c.GetJSON(ctx, lockDir+name, &h)
	if errors.Is(err, storage.ErrNotExist) {
		return "", "", nil
	}
	if err == nil && info.Now.IsZero() {
		err = errNoClock
	}
	if err != nil {
		return "", "", err
	}
	if l.dead(info.Modified, info.Now, l.o.Lease) {
		return "", info.Version, nil
	}
	return h.Owner, info.Version, nil
}

// Lock implements storage.Coordinator.
func (l *Coordinator) Lock(ctx context.Context, name string) (storage.Lease, error) {
	owner, version, err := l.lock(ctx, name)
	if err != nil {
		return nil, err
	}
	if owner != "" {
		return nil, fmt.Errorf("%s: %w", name, storage.ErrBusy)
	}
	h := l.hold(lockDir+name, l.o.Lease)
	h.cond = storage.IfAbsent()
	if version != "" {
		h.cond = storage.IfVersion(version)
	}
	if err := h.write(ctx, h.owner); err != nil {
		if errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrUnavailable) {
			err = fmt.Errorf("%s: %w: %w", name, storage.ErrBusy, err)
		}
		return nil, err
	}
	if name == storage.CollectorLock {
		l.mu.Lock()
		l.collector = h.owner
		l.mu.Unlock()
	}
	h.keep()
	return h, nil
}

// Exclusive implements storage.Coordinator.
func (l *Coordinator) Exclusive(ctx context.Context) (storage.Lease, error) {
	lock, err := l.Lock(ctx, exclusive)
	if err != nil {
		return nil, err
	}
	joined, err := l.anybody(ctx, members, l.o.Member)
	if err == nil && joined {
		err = fmt.Errorf("somebody has joined: %w", storage.ErrBusy)
	}
	if err != nil {
		lock.Release()
		return nil, err
	}
	return lock, nil
}

// Join implements storage.Coordinator. It announces itself first and then looks for a
// holder of Exclusive, who does it the other way round.
func (l *Coordinator) Join(ctx context.Context) (storage.Lease, error) {
	id := rand.Text()
	wish := l.hold(waiting+id, l.o.Lease)
	wished := false
	defer func() {
		if wished {
			wish.Release()
		}
	}()
	for {
		m := l.hold(members+id, l.o.Member)
		if err := m.write(ctx, m.owner); err != nil {
			return nil, joinError(ctx, err)
		}
		owner, err := l.lockHeld(ctx, exclusive)
		if err == nil && owner == "" {
			m.keep()
			l.mu.Lock()
			l.joined = m
			l.mu.Unlock()
			return m, nil
		}
		m.Release()
		if err == nil {
			wished = true
			err = wish.write(ctx, wish.owner)
		}
		if err == nil {
			err = sleep(ctx, l.o.RunPoll)
		}
		if err != nil {
			return nil, joinError(ctx, err)
		}
	}
}

func joinError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", storage.ErrBusy, err)
	}
	return err
}

// anybody says whether somebody who may live has an object below prefix, and removes those
// of the dead.
func (l *Coordinator) anybody(ctx context.Context, prefix string, lease time.Duration) (bool, error) {
	all, now, err := l.c.All(ctx, prefix)
	if err != nil {
		return false, err
	}
	found := false
	for _, o := range all {
		if now.IsZero() {
			return false, errNoClock
		}
		if !l.dead(o.Modified, now, lease) {
			found = true
			continue
		}
		if err := l.c.Delete(ctx, o.Key, &object.Change{If: storage.IfVersion(o.Version)}); err != nil && !errors.Is(err, storage.ErrConflict) {
			return false, err
		}
	}
	return found, nil
}

// hold is a storage.Lease: an object that is renewed until Release. A lock's is
// replaced by condition, so that nobody has it twice; others have a key of their own.
type hold struct {
	l     *Coordinator
	key   string
	owner string
	lease time.Duration
	lost  chan struct{}
	over  sync.Once // closes lost

	ends atomic.Pointer[time.Time] // until, for who does not wait for mu

	mu     sync.Mutex
	cond   storage.Condition
	until  time.Time
	done   bool
	wanted time.Time // when somebody was last looked for
	want   bool
}

func (l *Coordinator) hold(key string, lease time.Duration) *hold {
	return &hold{l: l, key: key, owner: rand.Text(), lease: lease, lost: make(chan struct{})}
}

// write reckons from before the request.
func (h *hold) write(ctx context.Context, owner string) error {
	begun := time.Now()
	conditional := h.cond != (storage.Condition{})
	how := &object.Change{If: h.cond, Before: h.until, Versioned: conditional}
	if owner == "" {
		how.Before = time.Time{} // the condition suffices
	}
	version, err := h.l.c.PutJSON(ctx, h.key, held{owner}, how)
	if err != nil {
		return err
	}
	h.until = begun.Add(h.lease)
	if ends := h.until; owner != "" {
		h.ends.Store(&ends)
	}
	if conditional {
		h.cond = storage.IfVersion(version)
	}
	return nil
}

// keep renews the lease until it is released or lost.
func (h *hold) keep() {
	h.l.running.Go(func() {
		for {
			h.mu.Lock()
			left := time.Until(h.until)
			h.mu.Unlock()
			select {
			case <-h.lost:
				return
			case <-h.l.stopped.Done():
				// Who is dead holds it no longer than others believe.
				time.AfterFunc(left, func() { h.over.Do(func() { close(h.lost) }) })
				return
			case <-time.After(max(left-h.lease/2, h.lease/16)):
			}
			h.mu.Lock()
			if !h.done {
				ctx, cancel := context.WithDeadline(h.l.stopped, h.until)
				err := h.write(ctx, h.owner)
				cancel()
				if errors.Is(err, storage.ErrConflict) || time.Now().After(h.until) {
					h.over.Do(func() { close(h.lost) })
				}
			}
			h.mu.Unlock()
		}
	})
}

func (h *hold) Lost() <-chan struct{} { return h.lost }

// Deadline is when it is lost unless it is renewed: a process that was stopped learns that
// before Lost is closed.
func (h *hold) Deadline() time.Time { return *h.ends.Load() }

func (h *hold) Wanted() bool {
	if h.key != lockDir+exclusive {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.wanted) > cmp.Or(h.l.o.RunPoll, time.Second) {
		ctx, cancel := context.WithTimeout(h.l.stopped, h.lease)
		defer cancel()
		want, err := h.l.anybody(ctx, waiting, h.l.o.Lease)
		h.want, h.wanted = want && err == nil, time.Now()
	}
	return h.want
}

func (h *hold) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return
	}
	h.done = true
	h.over.Do(func() { close(h.lost) })
	h.l.mu.Lock()
	if h.l.joined == h {
		h.l.joined = nil
	}
	h.l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), h.lease)
	defer cancel()
	if h.cond != (storage.Condition{}) {
		_ = h.write(ctx, "") // else it runs out
		return
	}
	_ = h.l.c.Delete(ctx, h.key, &object.Change{}) // else it runs out
}
