package proxy

import (
	"context"
	"sync"
)

// single has one caller work for all who want the same at the same time. The work goes
// on when they leave.
type single[K comparable, V any] struct {
	mu    sync.Mutex
	calls map[K]*call[V]
}

type call[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// start returns the work under way for the key, and begins it if there is none.
func (s *single[K, V]) start(c *Cache, key K, work func(context.Context) (V, error)) *call[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.calls[key]; ok {
		return now
	}
	if s.calls == nil {
		s.calls = map[K]*call[V]{}
	}
	now := &call[V]{done: make(chan struct{})}
	s.calls[key] = now
	c.work.Go(func() {
		now.value, now.err = work(c.ctx)
		s.mu.Lock()
		delete(s.calls, key)
		s.mu.Unlock()
		close(now.done)
	})
	return now
}

// wait is the outcome; the error may be that of ctx.
func (c *call[V]) wait(ctx context.Context) (value V, err error) {
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}
