package relay

import (
	"sync"
	"sync/atomic"
)

// waiters are requests that wait for messages to come to rest.
type waiters struct {
	n    atomic.Int64
	mu   sync.Mutex
	byID map[int64][]chan struct{}
}

// add returns a channel that is closed when the message comes to rest, and a function that ends the waiting.
func (w *waiters) add(id int64) (<-chan struct{}, func()) {
	c := make(chan struct{})
	w.mu.Lock()
	w.byID[id] = append(w.byID[id], c)
	w.mu.Unlock()
	w.n.Add(1)
	return c, func() { w.remove(id, c) }
}

func (w *waiters) remove(id int64, c chan struct{}) {
	w.n.Add(-1)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, x := range w.byID[id] {
		if x == c {
			w.byID[id] = append(w.byID[id][:i:i], w.byID[id][i+1:]...)
			break
		}
	}
	if len(w.byID[id]) == 0 {
		delete(w.byID, id)
	}
}

// wake tells those who wait for a message that it is at rest.
func (w *waiters) wake(id int64) {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.byID[id] {
		close(c)
	}
	delete(w.byID, id)
}
