package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/shared/regular"
)

const (
	maxFileSize  = 16 << 20
	lookInterval = time.Second
)

// passwordFile is an htpasswd file that is read again at most once a second, and only when
// somebody asks: content is the only proof of a change that every file system gives.
type passwordFile struct {
	path  string
	log   *zap.Logger
	start time.Time

	current  atomic.Pointer[users] // nil while the file cannot be read
	nextLook atomic.Int64          // since start

	mu      sync.Mutex // held while looking
	content []byte
}

// openPasswordFile reads the file for the first time.
func openPasswordFile(path string, log *zap.Logger) (*passwordFile, error) {
	f := &passwordFile{path: path, log: log, start: time.Now()}
	err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the password file %[1]s does not exist; make it with: registry htpasswd %[1]s USER", path)
	}
	if err != nil {
		return nil, fmt.Errorf("password file: %w", err)
	}
	f.nextLook.Store(int64(lookInterval))
	return f, nil
}

// users returns what the file says now, at most a second late. It is nil while
// the file is missing or cannot be read: without the file nobody can tell who
// was removed from it, so nobody gets in until it is back.
func (f *passwordFile) users() *users {
	overdue := time.Since(f.start) - time.Duration(f.nextLook.Load())
	if overdue < 0 {
		return f.current.Load()
	}
	if !f.mu.TryLock() {
		if overdue < lookInterval {
			return f.current.Load() // somebody looks right now
		}
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	if time.Since(f.start) >= time.Duration(f.nextLook.Load()) {
		f.look()
		f.nextLook.Store(int64(time.Since(f.start) + lookInterval))
	}
	return f.current.Load()
}

// look reads the file again.
func (f *passwordFile) look() {
	if err := f.read(); err != nil && f.current.Swap(nil) != nil {
		f.log.Error("the password file cannot be read; every login is refused until it can", zap.String("file", f.path), zap.Error(err))
	}
}

func (f *passwordFile) read() error {
	content, err := regular.ReadFile(f.path, maxFileSize)
	if err != nil {
		return err
	}
	f.take(content)
	return nil
}

// take puts the content into force and reports lines that were not broken
// before.
func (f *passwordFile) take(content []byte) {
	old := f.current.Load()
	if old != nil && bytes.Equal(content, f.content) {
		return
	}
	u := parseUsers(content)
	var reported []brokenLine
	if f.content != nil {
		reported = parseUsers(f.content).broken
	}
	for _, b := range u.broken {
		if !slices.ContainsFunc(reported, func(r brokenLine) bool { return r.user == b.user && r.reason == b.reason }) {
			f.log.Error("a line of the password file gives nobody access",
				zap.String("file", f.path), zap.Int("line", b.number), zap.String("user", b.user), zap.String("reason", b.reason))
		}
	}
	if f.content != nil {
		f.log.Info("the password file was read again", zap.String("file", f.path), zap.Int("users", len(u.byName)))
	}
	f.content = content
	f.current.Store(u)
}
