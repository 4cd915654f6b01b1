// Package filewatch keeps the parsed content of files in memory and follows their
// changes. While new content is invalid, the previous one stays in use.
package filewatch

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/shared/regular"
)

const (
	// Interval is the longest time that Get returns old content.
	Interval = time.Second

	maxSize = 4 << 20
)

// Value is the parsed content of some files. Get reads them again, at most once in
// Interval: content is the only proof of a change that every file system gives.
type Value[T any] struct {
	what  string
	paths []string
	parse func(contents [][]byte) (T, error)
	log   *zap.Logger
	start time.Time
	tell  func(err error) // called for each new content; may be nil

	current  atomic.Pointer[T]
	nextRead atomic.Int64 // since start

	mu       sync.Mutex // held while reading
	contents [][]byte
	failed   string // the last failure, so that it is logged once
}

// Open reads the files for the first time. what names them in the log: "access
// rules". Paths that are "" have no content.
func Open[T any](what string, log *zap.Logger, parse func(contents [][]byte) (T, error), paths ...string) (*Value[T], error) {
	v := &Value[T]{what: what, paths: paths, parse: parse, log: log, start: time.Now()}
	if err := v.read(); err != nil {
		return nil, err
	}
	v.nextRead.Store(int64(Interval))
	return v, nil
}

// OnReload makes v call tell for each later content: with nil when it is in force, with
// the reason, once, when it is not. Call OnReload before the first Get.
func (v *Value[T]) OnReload(tell func(err error)) { v.tell = tell }

// Get returns the content, at most Interval old.
func (v *Value[T]) Get() T {
	if time.Since(v.start) >= time.Duration(v.nextRead.Load()) && v.mu.TryLock() {
		v.reload()
		v.mu.Unlock()
	}
	return *v.current.Load()
}

// Last returns the content that was read last.
func (v *Value[T]) Last() T { return *v.current.Load() }

// Reload reads the files now.
func (v *Value[T]) Reload() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reload()
}

func (v *Value[T]) reload() {
	before, failed := v.current.Load(), ""
	err := v.read()
	if err != nil {
		failed = err.Error()
	}
	news := failed != v.failed
	v.failed = failed
	v.nextRead.Store(int64(time.Since(v.start) + Interval))
	switch {
	case err != nil && news:
		v.log.Error("cannot reload the "+v.what+"; the previous content stays in use", zap.Strings("files", v.paths), zap.Error(err))
	case err == nil && v.current.Load() != before:
		v.log.Info("reloaded the "+v.what, zap.Strings("files", v.paths))
	default:
		return
	}
	if v.tell != nil {
		v.tell(err)
	}
}

// read parses the content of the files, unless it is the same as before.
func (v *Value[T]) read() error {
	contents := make([][]byte, len(v.paths))
	for i, path := range v.paths {
		if path == "" {
			continue
		}
		var err error
		if contents[i], err = regular.ReadFile(path, maxSize); err != nil {
			return err
		}
	}
	if v.contents != nil && slices.EqualFunc(contents, v.contents, bytes.Equal) {
		return nil
	}
	value, err := v.parse(contents)
	if err != nil {
		return err
	}
	v.contents = contents
	v.current.Store(&value)
	return nil
}
