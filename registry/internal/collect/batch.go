package collect

import "sync"

// batch collects what is deleted with one list.
type batch[T any] struct {
	limit  int
	mu     sync.Mutex
	parts  []T
	weight int
}

// add adds a part. At the limit it returns all and begins anew.
func (b *batch[T]) add(part T, weight int) []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parts, b.weight = append(b.parts, part), b.weight+weight
	if b.weight < b.limit {
		return nil
	}
	return b.reset()
}

// take returns what there is.
func (b *batch[T]) take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reset()
}

// reset needs b.mu.
func (b *batch[T]) reset() []T {
	all := b.parts
	b.parts, b.weight = nil, 0
	return all
}
