// Package filewatch keeps the parsed content of files in memory and follows their changes.
package filewatch

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
)

const (
	// Interval is the longest time that Get returns old content.
	Interval = time.Second

	maxSize = 16 << 20
)

// Options describe the files of a [Value].
type Options struct {
	What  string   // names them in the log: "access rules"
	Paths []string // those that are "" have no content
	Log   *zap.Logger

	// Strict makes Get return the zero value while the files can't be read or parsed. Without it
	// the previous content stays in use.
	Strict bool
}

// Value is the parsed content of some files. Get reads them again, at most once in
// Interval: content is the only proof of a change that every file system gives.
type Value[T any] struct {
	o     Options
	parse func(contents [][]byte) (T, error)
	start time.Time
	tell  func(err error) // called for each new content; may be nil

	current  atomic.Pointer[T]
	nextRead atomic.Int64 // since start

	mu       sync.Mutex // held while reading
	contents [][]byte
	failed   string // the last failure, so that it is logged once
}

// Open reads the files for the first time. parse is called only for content that has changed.
func Open[T any](o Options, parse func(contents [][]byte) (T, error)) (*Value[T], error) {
	v := &Value[T]{o: o, parse: parse, start: time.Now()}
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
	overdue := time.Since(v.start) - time.Duration(v.nextRead.Load())
	switch {
	case overdue < 0:
	case v.mu.TryLock():
		_ = v.reload() // logged
		v.mu.Unlock()
	case v.o.Strict && overdue >= Interval: // another caller reads, and that takes long
		v.mu.Lock()
		v.mu.Unlock() //nolint:staticcheck // the content is that of the other read
	}
	return *v.current.Load()
}

// Last returns the content that was read last.
func (v *Value[T]) Last() T { return *v.current.Load() }

// Reload reads the files now. The error, which is logged, is why the content isn't in force.
func (v *Value[T]) Reload() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reload()
}

func (v *Value[T]) reload() error {
	before, failed := v.current.Load(), ""
	err := v.read()
	if err != nil {
		failed = err.Error()
	}
	news := failed != v.failed
	v.failed = failed
	v.nextRead.Store(int64(time.Since(v.start) + Interval))
	consequence := "; the previous content stays in use"
	if err != nil && v.o.Strict {
		consequence = "; nothing in it counts until it can be read"
		v.contents = nil
		v.current.Store(new(T))
	}
	switch {
	case err != nil && news:
		v.o.Log.Error("cannot reload the "+v.o.What+consequence, zap.Strings("files", v.o.Paths), zap.Error(err))
	case err == nil && v.current.Load() != before:
		v.o.Log.Info("reloaded the "+v.o.What, zap.Strings("files", v.o.Paths))
	default:
		return err
	}
	if v.tell != nil {
		v.tell(err)
	}
	return err
}

// read parses the content of the files, unless it is the same as before.
func (v *Value[T]) read() error {
	contents := make([][]byte, len(v.o.Paths))
	for i, path := range v.o.Paths {
		if path == "" {
			continue
		}
		var err error
		if contents[i], err = ReadFile(path); err != nil {
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

// ReadFile returns the content of a regular file of at most 16 MiB. It refuses anything else
// without blocking: opening or reading a FIFO would wait for a writer.
func ReadFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err == nil && len(content) > maxSize {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxSize>>20)
	}
	return content, err
}
