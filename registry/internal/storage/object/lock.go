package object

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"slipway/registry/internal/storage"
)

const (
	lockPrefix = private + "lock/"
	// lockLife is the time by which a lock outlives its holder.
	lockLife = time.Minute
	// lockSettle is the time that a holder waits for others on a store without conditions.
	lockSettle = 2 * time.Second
)

// Lock implements storage.Store: an object whose date is renewed. On a store without conditions a shared
// lock is also held exclusively, so that a second server doesn't start. A bucket without space has no room for it:
// then others go on without, as the lock only saves work.
func (s *Store) Lock(ctx context.Context, name string, shared bool) (unlock func(), err error) {
	switch servers := name == storage.LockServers; {
	case servers && !shared:
		return nil, fmt.Errorf("nobody can know which registries serve a bucket: %w", storage.ErrBusy)
	case servers && s.limits.ConditionalPut:
		return func() {}, nil
	}
	unlock, _, err = s.lock(ctx, name)
	return unlock, err
}

// lock is Lock for one holder. taken is false if the bucket has no room for the lock.
func (s *Store) lock(ctx context.Context, name string) (unlock func(), taken bool, err error) {
	l := &lock{s: s, key: lockPrefix + name}
	err = l.take(ctx)
	if errors.Is(err, storage.ErrNoSpace) && name != storage.LockServers {
		return func() {}, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("lock %q: %w", name, err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.renew(ctx)
	}()
	return func() {
		cancel()
		<-ended
		l.release()
	}, true, nil
}

type lock struct {
	s       *Store
	key     string
	version string // "" once it was lost or released
}

// holder names this process, and makes the version of each renewal another.
func holder() []byte {
	host, _ := os.Hostname()
	return fmt.Appendf(nil, "process %d on %s\n%s\n", os.Getpid(), host, rand.Text())
}

func (l *lock) put(ctx context.Context, c storage.Condition) error {
	if !l.s.limits.ConditionalPut {
		if err := l.s.compare(ctx, l.key, c); err != nil {
			return err
		}
		c = storage.Condition{}
	}
	version, err := l.s.Put(ctx, l.key, holder(), &WriteOptions{If: c, Versioned: true})
	if err == nil {
		l.version = version
	}
	return err
}

func (l *lock) take(ctx context.Context) error {
	err := l.put(ctx, storage.IfAbsent())
	if errors.Is(err, storage.ErrConflict) {
		content, info, readErr := l.s.Get(ctx, l.key, 4<<10)
		switch {
		case errors.Is(readErr, storage.ErrNotExist):
			return storage.ErrBusy
		case readErr != nil:
			return readErr
		case info.Now.Sub(info.Modified) < lockLife:
			return fmt.Errorf("%w: %.100s", storage.ErrBusy, content)
		}
		err = l.put(ctx, storage.IfVersion(info.Version))
	}
	if errors.Is(err, storage.ErrConflict) {
		return storage.ErrBusy
	}
	if err == nil && !l.s.limits.ConditionalPut {
		err = sleep(ctx, lockSettle)
		if err == nil && l.s.compare(ctx, l.key, storage.IfVersion(l.version)) != nil {
			err = storage.ErrBusy
		}
	}
	return err
}

// renew keeps the lock until ctx ends or another process has it.
func (l *lock) renew(ctx context.Context) {
	for sleep(ctx, lockLife/4) == nil {
		// A put that has begun ends, so that the version is known.
		if err := l.put(context.WithoutCancel(ctx), storage.IfVersion(l.version)); errors.Is(err, storage.ErrConflict) {
			l.version = ""
			return
		}
	}
}

func (l *lock) release() {
	if l.version == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.s.timeout)
	defer cancel()
	if l.s.limits.ConditionalDelete {
		_ = l.s.Delete(ctx, l.key, &WriteOptions{If: storage.IfVersion(l.version)}) // else it expires
	} else if l.s.compare(ctx, l.key, storage.IfVersion(l.version)) == nil {
		_ = l.s.Delete(ctx, l.key, &WriteOptions{})
	}
	l.version = ""
}
