package memory

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"slipway/registry/internal/driver"
)

// uploadData is what the sessions of one upload share. Guarded by Driver.mu.
type uploadData struct {
	content []byte
	holder  *upload
}

type upload struct {
	d    *Driver
	path string
	data *uploadData
	// done and taken are guarded by d.mu.
	done, taken bool
}

// CreateUpload implements driver.Driver.
func (d *Driver) CreateUpload(_ context.Context, path string) (driver.Upload, error) {
	if !driver.ValidPath(path) {
		return nil, fmt.Errorf("%q: %w", path, driver.ErrInvalidPath)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uploads[path] != nil {
		return nil, fmt.Errorf("%s: the upload exists", path)
	}
	d.uploads[path] = &uploadData{}
	return d.hold(path), nil
}

// OpenUpload implements driver.Driver.
func (d *Driver) OpenUpload(_ context.Context, path string) (driver.Upload, error) {
	if !driver.ValidPath(path) {
		return nil, fmt.Errorf("%q: %w", path, driver.ErrInvalidPath)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uploads[path] == nil {
		return nil, notExist(path)
	}
	return d.hold(path), nil
}

// UploadSize implements driver.Driver.
func (d *Driver) UploadSize(_ context.Context, path string) (int64, error) {
	if !driver.ValidPath(path) {
		return 0, fmt.Errorf("%q: %w", path, driver.ErrInvalidPath)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.uploads[path] == nil {
		return 0, notExist(path)
	}
	return int64(len(d.uploads[path].content)), nil
}

func (d *Driver) hold(path string) *upload {
	u := &upload{d: d, path: path, data: d.uploads[path]}
	if before := u.data.holder; before != nil {
		before.taken = !before.done
	}
	u.data.holder = u
	return u
}

// usable needs d.mu.
func (u *upload) usable() error {
	switch {
	case u.taken:
		return driver.ErrUploadTaken
	case u.done:
		return driver.ErrUploadDone
	case u.d.uploads[u.path] != u.data:
		return notExist(u.path)
	}
	return nil
}

func (u *upload) Write(p []byte) (int, error) {
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	if err := u.usable(); err != nil {
		return 0, err
	}
	u.data.content = append(u.data.content, p...)
	return len(p), nil
}

func (u *upload) Size() int64 {
	u.d.mu.RLock()
	defer u.d.mu.RUnlock()
	return int64(len(u.data.content))
}

func (u *upload) Reader(_ context.Context, offset int64) (io.ReadCloser, error) {
	u.d.mu.RLock()
	defer u.d.mu.RUnlock()
	if err := u.usable(); err != nil {
		return nil, err
	}
	if offset < 0 || offset > int64(len(u.data.content)) {
		return nil, fmt.Errorf("offset %d is outside of the upload", offset)
	}
	return io.NopCloser(bytes.NewReader(u.data.content[offset:])), nil
}

func (u *upload) Close() error {
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	u.done = true
	return nil
}

func (u *upload) Cancel(context.Context) error {
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	if u.taken {
		return driver.ErrUploadTaken
	}
	if u.done {
		return nil
	}
	u.done = true
	delete(u.d.uploads, u.path)
	return nil
}
