package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"

	"slipway/registry/internal/storage"
)

// Apply implements storage.Store. Nobody sees a part of it, but after an error the
// changes before the one that failed stay.
func (m *Memory) Apply(_ context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	changes := slices.Concat(stages...)
	for i := range changes {
		if err := changes[i].Check(); err != nil {
			return err
		}
	}
	if a != nil && (a.Token().(uint64) < m.fence || a.Err() != nil) { //nolint:forcetypeassert // an attempt of this store
		return storage.ErrExpired
	}
	for _, c := range changes {
		if err := m.apply(c); err != nil {
			return fmt.Errorf("%s: %w", c.Key, err)
		}
	}
	return nil
}

// apply needs m.mu, as all below do.
func (m *Memory) apply(c storage.Change) error {
	old := m.objects[c.Key]
	switch want := c.If.Version(); {
	case c.If.Absent() && old != nil:
		return storage.ErrConflict
	case want != "" && (old == nil || strconv.FormatUint(old.version, 10) != want):
		return storage.ErrConflict
	case c.Delete:
		delete(m.uploads, c.Key)
		m.remove(c.Key)
	case c.Renew && old == nil:
		return storage.ErrNotExist
	case c.Renew:
		m.objects[c.Key] = &object{old.content, m.clock(), old.version}
	case c.Upload != nil:
		h, ok := c.Upload.(*hold)
		if !ok || h.m != m {
			return fmt.Errorf("upload %T of another store", c.Upload)
		}
		if err := h.usable(); err != nil {
			return err
		}
		delete(m.uploads, h.key)
		h.done = true
		m.put(c.Key, h.u.content)
	default:
		m.put(c.Key, bytes.Clone(c.Content))
	}
	return nil
}

func (m *Memory) put(key string, content []byte) {
	if m.objects[key] == nil {
		m.changeNames(key, true)
		i, _ := slices.BinarySearch(m.keys, key)
		m.keys = slices.Insert(m.keys, i, key)
	}
	m.count++
	m.objects[key] = &object{content, m.clock(), m.count}
}

func (m *Memory) remove(key string) {
	if m.objects[key] == nil {
		return
	}
	delete(m.objects, key)
	i, _ := slices.BinarySearch(m.keys, key)
	m.keys = slices.Delete(m.keys, i, i+1)
	m.changeNames(key, false)
}
