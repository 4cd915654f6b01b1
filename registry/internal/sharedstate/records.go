package sharedstate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/storage"
)

const (
	// Fresh is the time for which a record that was read is trusted: a change by another process counts
	// after that much time at the latest.
	Fresh = 2 * time.Second

	// MaxRecord is the largest record that can be read, in bytes.
	MaxRecord = 64 << 10

	// maxStale is the greatest age of a record that counts while the storage can't be read.
	maxStale = 30 * time.Second

	renewPause  = 200 * time.Millisecond // between two reads of a record that didn't fit
	readTimeout = 5 * time.Second
	maxReads    = 16 // at the same time, of one list, and of what isn't known
	maxKnown    = 10_000
)

// ErrUnread is wrapped by the error for a record that can't be read at present.
var ErrUnread = errors.New("the storage cannot be read")

// Records are small values of T, each an object of its own, that several processes change, and read
// when they need one. Nobody changes a value that was returned.
type Records[T any] struct {
	store storage.Store
	parse func(key string, content []byte) *T
	known *cache.Cache[string, record[T]]
	reads cache.Group[*T]
	slots chan struct{} // of reads of what isn't known: guesses of names can't pile them up

	mu      sync.Mutex
	changes uint64 // made here: a read that began before a change is not kept
}

// record is the last reading of a key.
type record[T any] struct {
	value   *T
	version string
	at      time.Time // when it was current
	asked   time.Time // when the storage was asked last
}

// NewRecords does no I/O. parse returns nil for content that stands for no record.
func NewRecords[T any](store storage.Store, parse func(key string, content []byte) *T) *Records[T] {
	return &Records[T]{store: store, parse: parse, known: cache.New[string, record[T]](maxKnown), slots: make(chan struct{}, maxReads)}
}

// Get returns a record as it was at most Fresh ago. Errors: storage.ErrNotExist; ErrUnread, if the storage
// can't be read and the last reading is older than half a minute; the context's.
func (r *Records[T]) Get(ctx context.Context, key string) (*T, error) {
	return r.get(ctx, key, Fresh)
}

// Renew is Get for a caller whom the known record doesn't fit: another process may have changed it a moment
// ago. It limits how often a record is read.
func (r *Records[T]) Renew(ctx context.Context, key string) (*T, error) {
	return r.get(ctx, key, renewPause)
}

func (r *Records[T]) get(ctx context.Context, key string, age time.Duration) (*T, error) {
	old, known := r.known.Get(key)
	if known && time.Since(old.asked) < age {
		return old.value, nil
	}
	r.mu.Lock()
	changes := r.changes
	r.mu.Unlock()
	// A read that began before a change must not answer a later call.
	return r.reads.Do(ctx, strconv.FormatUint(changes, 10)+" "+key, func() (*T, error) {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		if !known { // what is used must not wait for guesses
			select {
			case r.slots <- struct{}{}:
				defer func() { <-r.slots }()
			case <-ctx.Done():
				return nil, fmt.Errorf("%w: too many reads at once", ErrUnread)
			}
		}
		began := time.Now()
		value, version, err := r.Read(ctx, key)
		switch {
		case err == nil:
			r.keep(key, record[T]{value, version, began, began}, changes)
			return value, nil
		case errors.Is(err, storage.ErrNotExist):
			r.known.Forget(key) // and nothing is kept: guesses must not push out what is used
			return nil, err
		case known && began.Sub(old.at) <= maxStale:
			r.keep(key, record[T]{old.value, old.version, old.at, time.Now()}, changes)
			return old.value, nil
		default:
			return nil, fmt.Errorf("%w: %w", ErrUnread, err)
		}
	})
}

func (r *Records[T]) keep(key string, value record[T], changes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changes == changes {
		r.known.Put(key, value, 1)
	}
}

// Read returns a record and its version from the storage. storage.ErrNotExist.
func (r *Records[T]) Read(ctx context.Context, key string) (value *T, version string, err error) {
	content, info, err := storage.Read(ctx, r.store, key, MaxRecord)
	if err != nil {
		return nil, "", err
	}
	if value = r.parse(key, content); value == nil {
		return nil, "", storage.ErrNotExist
	}
	return value, info.Version, nil
}

// Apply makes a change of one record, which counts here at once.
func (r *Records[T]) Apply(ctx context.Context, change storage.Change) error {
	err := r.store.Apply(ctx, nil, storage.Stage{change})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	r.known.Forget(change.Key)
	return err
}

// List returns at most limit records below a prefix whose keys are wanted, by key, and reports whether there
// are more. It reads those that aren't known or have changed.
func (r *Records[T]) List(ctx context.Context, prefix string, wanted func(key string) bool, limit int) (all []*T, more bool, err error) {
	r.mu.Lock()
	changes := r.changes
	r.mu.Unlock()
	began := time.Now()
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	var slots []*record[T]
	for info, err := range r.store.List(ctx, prefix, storage.ListOptions{Flat: true}) {
		if err != nil {
			return nil, false, errors.Join(err, group.Wait())
		}
		if !wanted(info.Key) {
			continue
		}
		if more = len(slots) == limit; more {
			break
		}
		slot := &record[T]{at: began, asked: began}
		slots = append(slots, slot)
		if old, ok := r.known.Get(info.Key); ok && old.version != "" && old.version == info.Version {
			slot.value, slot.version = old.value, old.version
			r.keep(info.Key, *slot, changes)
			continue
		}
		group.Go(func() (err error) {
			slot.value, slot.version, err = r.Read(reading, info.Key)
			if errors.Is(err, storage.ErrNotExist) {
				return nil
			}
			if err == nil {
				r.keep(info.Key, *slot, changes)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, false, err
	}
	for _, slot := range slots {
		if slot.value != nil {
			all = append(all, slot.value)
		}
	}
	return all, more, nil
}
