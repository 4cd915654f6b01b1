// Package sharedstate keeps the state that several processes read and change: small JSON
// documents in the storage.
package sharedstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/storage"
)

const (
	maxSize     = 8 << 20
	maxAttempts = 100
	retryPause  = 20 * time.Millisecond
)

// ErrTooLarge is inside the error of an update that would make the document larger than
// it can be read.
var ErrTooLarge = fmt.Errorf("would be larger than %d MiB", maxSize>>20)

// ErrDamaged is inside the error of a read of something that is not the document.
var ErrDamaged = errors.New("not a document that this version can read")

// Document is a value of T, which is plain data, as JSON at one key. That there is
// nothing at the key stands for the zero T.
type Document[T any] struct {
	store storage.Store
	key   string
	known atomic.Pointer[reading[T]]
}

// reading is the result of one read. It must not be modified.
type reading[T any] struct {
	value   *T
	version string
	at      time.Time // when it was last known to be current
}

// New does no I/O.
func New[T any](store storage.Store, key string) *Document[T] {
	return &Document[T]{store: store, key: key}
}

// Last is the value that was read last and when it was known to be current; nil if
// none was read yet. Nobody changes it.
func (d *Document[T]) Last() (value *T, at time.Time) {
	r := d.known.Load()
	if r == nil {
		return nil, time.Time{}
	}
	return r.value, r.at
}

// Refresh looks whether the document has changed, at the price of one Stat, and
// reads it if so.
func (d *Document[T]) Refresh(ctx context.Context) error {
	now := time.Now()
	info, err := d.store.Stat(ctx, d.key)
	if known := d.known.Load(); err == nil && known != nil && known.version != "" && known.version == info.Version {
		d.known.Store(&reading[T]{known.value, known.version, now})
		return nil
	}
	if err != nil && !errors.Is(err, storage.ErrNotExist) {
		return err
	}
	value, info, err := d.read(ctx)
	if err == nil {
		d.known.Store(&reading[T]{value, info.Version, now})
	}
	return err
}

func (d *Document[T]) read(ctx context.Context) (*T, storage.Info, error) {
	value := new(T)
	content, info, err := storage.Read(ctx, d.store, d.key, maxSize)
	if errors.Is(err, storage.ErrNotExist) {
		return value, storage.Info{}, nil
	}
	if err == nil {
		if err = json.Unmarshal(content, value); err != nil {
			err = fmt.Errorf("%s: %w: %w", d.key, ErrDamaged, err)
		}
	}
	return value, info, err
}

// Discard removes the document if it is damaged.
func (d *Document[T]) Discard(ctx context.Context) error {
	_, info, err := d.read(ctx)
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	err = d.store.Apply(ctx, nil, storage.Stage{{Key: d.key, Delete: true, If: storage.IfVersion(info.Version)}})
	if errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotExist) { // another process was faster
		return nil
	}
	return err
}

// Update changes the value and writes it durably. change is called again, with the
// new value, if another process was faster; its error ends the update.
func (d *Document[T]) Update(ctx context.Context, change func(*T) error) error {
	for range maxAttempts {
		began := time.Now()
		value, info, err := d.read(ctx)
		if err != nil {
			return err
		}
		condition := storage.IfAbsent()
		if info.Key != "" {
			condition = storage.IfVersion(info.Version)
		}
		if info.Key == "" || info.Version != "" { // without a version yet it is looked at again
			if err := change(value); err != nil {
				return err
			}
			content, err := json.Marshal(value)
			if err != nil {
				return err
			}
			if len(content) > maxSize { // nobody could read it
				return fmt.Errorf("%s: %w", d.key, ErrTooLarge)
			}
			err = d.store.Apply(ctx, nil, storage.Stage{{Key: d.key, Content: content, If: condition}})
			if err == nil {
				d.known.Store(&reading[T]{value, "", began})
				return nil
			}
			if !errors.Is(err, storage.ErrConflict) {
				return err
			}
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s: %w", d.key, storage.ErrConflict)
}

// Poll calls refresh after each interval until ctx ends. It logs the first of several failures in
// a row; what names what cannot be read.
func Poll(ctx context.Context, interval time.Duration, log *zap.Logger, what string, refresh func(context.Context) error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		limited, cancel := context.WithTimeout(ctx, min(10*interval, time.Minute))
		err := refresh(limited)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			log.Error("cannot read the "+what, zap.Error(err))
		}
		failing = err != nil
	}
}
