package memory

import (
	"context"
	"fmt"
	"time"

	"slipway/registry/internal/storage"
)

// Begin implements storage.Store. Its attempts renew whatever is older than they are.
func (m *Memory) Begin() *storage.Attempt {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	return storage.NewAttempt(m.clock(), 0, m.count, nil)
}

// Lock implements storage.Store.
func (m *Memory) Lock(_ context.Context, name string, shared bool) (unlock func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lock(name, shared)
}

// lock needs m.mu.
func (m *Memory) lock(name string, shared bool) (unlock func(), err error) {
	switch n := m.locks[name]; {
	case n == 0 && !shared:
		m.locks[name] = -1
	case n >= 0 && shared:
		m.locks[name]++
	default:
		return nil, fmt.Errorf("lock %q: %w", name, storage.ErrBusy)
	}
	held := true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case !held:
		case shared:
			m.locks[name]--
		default:
			m.locks[name] = 0
		}
		held = false
	}, nil
}

// Collect implements storage.Store. All attempts under way end.
func (m *Memory) Collect(context.Context) (storage.Collection, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	unlock, err := m.lock(storage.LockCollector, false)
	if err != nil {
		return nil, err
	}
	c := &collection{m: m, start: m.clock(), begun: time.Now(), unlock: unlock}
	c.rejoin, _ = m.lock(storage.LockServers, false) // busy: somebody serves
	m.count++
	m.fence = m.count
	return c, nil
}

type collection struct {
	m      *Memory
	start  time.Time
	begun  time.Time
	unlock func()
	rejoin func() // nil unless offline
}

func (c *collection) Start() time.Time { return c.start }

func (c *collection) Offline() bool { return c.rejoin != nil }

func (c *collection) Delete(_ context.Context, infos []storage.Info) (kept []storage.Info, err error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if !c.Offline() {
		if err := storage.CheckClock(c.start.Round(0), c.m.clock(), time.Since(c.begun)); err != nil {
			return nil, err
		}
	}
	for _, info := range infos {
		o := c.m.objects[info.Key]
		if o == nil {
			continue
		}
		if now := o.info(info.Key); now.Version == info.Version && now.Modified.Equal(info.Modified) {
			c.m.remove(info.Key)
		} else {
			kept = append(kept, now)
		}
	}
	return kept, nil
}

func (c *collection) Close() {
	if c.rejoin != nil {
		c.rejoin()
	}
	c.unlock()
}
