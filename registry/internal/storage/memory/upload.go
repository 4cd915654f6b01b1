package memory

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"slipway/registry/internal/storage"
)

// upload is the state that its holders share, guarded by Memory.mu.
type upload struct {
	content  []byte
	state    []byte // given to Suspend, dropped by Write
	modified time.Time
	holder   *hold
}

// hold is a storage.Upload. done is guarded by m.mu.
type hold struct {
	m      *Memory
	key    string
	u      *upload
	opened int64 // size then
	done   bool
}

// maxState bounds the state that Suspend takes.
const maxState = 4 << 10

// OpenUpload implements storage.Store. The newer holder wins.
func (m *Memory) OpenUpload(_ context.Context, key string, o storage.UploadOptions) (storage.Upload, error) {
	if err := valid(key); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.uploads[key]
	switch {
	case o.Create && (u != nil || m.objects[key] != nil):
		return nil, fmt.Errorf("%s: %w", key, storage.ErrConflict)
	case o.Create:
		u = &upload{modified: m.clock()}
		m.uploads[key] = u
	case u == nil:
		return nil, notExist(key)
	}
	u.holder = &hold{m: m, key: key, u: u, opened: int64(len(u.content))}
	return u.holder, nil
}

// usable needs m.mu.
func (h *hold) usable() error {
	switch {
	case h.done:
		return storage.ErrUploadDone
	case h.u.holder != h:
		return storage.ErrUploadTaken
	case h.m.uploads[h.key] != h.u:
		return notExist(h.key)
	}
	return nil
}

func (h *hold) Write(p []byte) (int, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.usable(); err != nil {
		return 0, err
	}
	if len(p) > 0 {
		h.u.content, h.u.state, h.u.modified = append(h.u.content, p...), nil, h.m.clock()
	}
	return len(p), nil
}

func (h *hold) Progress() (int64, []byte) {
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	return int64(len(h.u.content)), bytes.Clone(h.u.state)
}

func (h *hold) Reader(_ context.Context, offset int64) (io.ReadCloser, error) {
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	if err := h.usable(); err != nil {
		return nil, err
	}
	if offset < 0 || offset > int64(len(h.u.content)) {
		return nil, fmt.Errorf("%s: offset %d is outside of the upload", h.key, offset)
	}
	return io.NopCloser(bytes.NewReader(h.u.content[offset:])), nil
}

func (h *hold) Suspend(_ context.Context, size int64, state []byte) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.done {
		return nil
	}
	err := h.usable()
	h.done = true
	if err == nil && len(state) > maxState {
		err = fmt.Errorf("%s: a state of %d bytes: %w", h.key, len(state), storage.ErrTooLarge)
	}
	if now := int64(len(h.u.content)); err == nil && size != now && size != h.opened {
		err = fmt.Errorf("%s: cannot keep %d of %d bytes", h.key, size, now)
	}
	if err == nil {
		h.u.content, h.u.state = h.u.content[:size:size], bytes.Clone(state)
	}
	return err
}

func (h *hold) Cancel(context.Context) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.done {
		return nil
	}
	if h.u.holder != h {
		return storage.ErrUploadTaken
	}
	h.done = true
	if h.m.uploads[h.key] == h.u {
		delete(h.m.uploads, h.key)
	}
	return nil
}
