// Package filewatch keeps what files say in memory, and reads them again when
// they change. If the new content is bad the old one stays in force.
package filewatch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// Interval is how often the files are looked at, at most.
	Interval = time.Second

	maxSize = 4 << 20

	// A file changed twice within the resolution of its time stamp looks the
	// same after the second change. One so young is read again.
	stampResolution = 2 * time.Second
)

// Value is what some files say. It looks at them only when somebody asks, at most
// once in Interval.
type Value[T any] struct {
	what  string
	paths []string
	parse func(contents [][]byte) (T, error)
	log   *zap.Logger
	start time.Time
	tell  func(err error) // of each new content; nil = nobody

	current  atomic.Pointer[T]
	nextLook atomic.Int64 // since start

	mu       sync.Mutex // held while looking
	stamps   []stamp
	contents [][]byte
	failed   string // the last failure, so that it is logged once
}

// stamp is what tells one state of a file from another.
type stamp struct {
	info  os.FileInfo
	young bool
}

// Open reads the files for the first time. what names them in the log: "access
// rules". Paths that are "" have no content.
func Open[T any](what string, log *zap.Logger, parse func(contents [][]byte) (T, error), paths ...string) (*Value[T], error) {
	v := &Value[T]{what: what, paths: paths, parse: parse, log: log, start: time.Now()}
	if err := v.read(); err != nil {
		return nil, err
	}
	v.nextLook.Store(int64(Interval))
	return v, nil
}

// OnReload has tell called with each later content: with nil when it is in force, with
// the reason, once, when it is not. It is called before the first Get.
func (v *Value[T]) OnReload(tell func(err error)) { v.tell = tell }

// Get returns what the files say now, at most Interval late.
func (v *Value[T]) Get() T {
	if time.Since(v.start) >= time.Duration(v.nextLook.Load()) && v.mu.TryLock() {
		v.look()
		v.mu.Unlock()
	}
	return *v.current.Load()
}

// Reload looks at the files now.
func (v *Value[T]) Reload() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.look()
}

func (v *Value[T]) look() {
	defer func() { v.nextLook.Store(int64(time.Since(v.start) + Interval)) }()
	if !v.changed() {
		return
	}
	before, failed := v.current.Load(), ""
	err := v.read()
	if err != nil {
		failed = err.Error()
	}
	news := failed != v.failed
	v.failed = failed
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

func (v *Value[T]) changed() bool {
	for i, path := range v.paths {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		old := v.stamps[i]
		if err != nil || old.young || !os.SameFile(info, old.info) || info.Size() != old.info.Size() || !info.ModTime().Equal(old.info.ModTime()) {
			return true
		}
	}
	return v.failed != ""
}

// read puts the content of the files into force, unless it is the same.
func (v *Value[T]) read() error {
	stamps, contents := make([]stamp, len(v.paths)), make([][]byte, len(v.paths))
	same := v.contents != nil
	for i, path := range v.paths {
		if path == "" {
			continue
		}
		var err error
		if stamps[i], contents[i], err = readFile(path); err != nil {
			return err
		}
		same = same && string(contents[i]) == string(v.contents[i])
	}
	if !same {
		value, err := v.parse(contents)
		if err != nil {
			return err
		}
		v.current.Store(&value)
	}
	v.stamps, v.contents = stamps, contents
	return nil
}

func readFile(path string) (stamp, []byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return stamp{}, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return stamp{}, nil, err
	}
	if info.IsDir() {
		return stamp{}, nil, errors.New(path + " is a directory, not a file")
	}
	young := time.Since(info.ModTime()) < stampResolution
	content, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err == nil && len(content) > maxSize {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxSize>>20)
	}
	return stamp{info, young}, content, err
}
