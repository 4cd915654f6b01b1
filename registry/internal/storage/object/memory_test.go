package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/storage"
)

// memory is a bucket that answers at once, as Amazon does: a touch leaves the version as it is.
type memory struct {
	Bucket
	mu      sync.Mutex
	objects map[string]stored
	puts    int
	limits  Limits
	ahead   time.Duration                  // of the clock, compared with the dates of objects
	fail    func(method, key string) error // before it does anything; nil = nothing fails
	lost    func(method string) bool       // the answer of what it has done; nil = none
}

type stored struct {
	Info
	content []byte
}

func newMemory() *memory {
	return &memory{objects: map[string]stored{}, limits: Limits{
		MinPart: 1, MaxPut: 1 << 30, MaxParts: 100, MaxDelete: 10, MaxLate: 25 * time.Second, ConditionalPut: true, ComposedEarly: true,
		GetRight: "get", PutRight: "put", DeleteRight: "delete",
	}}
}

func (m *memory) store(t *testing.T) *Store {
	t.Helper()
	return New(NewClient(m, "root", m.limits, Timing{}), Options{Spool: t.TempDir(), Upload: func(key string) bool { return strings.HasPrefix(key, "/up/") }})
}

// failWith makes requests fail with what fail returns, before they take effect.
func (m *memory) failWith(fail func(method, key string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = fail
}

func (m *memory) failed(method, key string) error {
	m.mu.Lock()
	fail := m.fail
	m.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(method, key)
}

// Now has a resolution of a second, as the header Date of answers has.
func (m *memory) Now() time.Time { return m.date().Add(m.ahead) }

// date is the one of an object that changes now.
func (m *memory) date() time.Time { return time.Now().Truncate(time.Second) }

func (m *memory) Limits() Limits { return m.limits }

func (m *memory) Close() error { return nil }

func (m *memory) AbortOld(context.Context, string, time.Time) error { return nil }

// holds needs m.mu.
func (m *memory) holds(key string, c storage.Condition) error {
	o, there := m.objects[key]
	if c.Absent() && there || c.Version() != "" && o.Version != c.Version() {
		return storage.ErrConflict
	}
	return nil
}

func (m *memory) Put(_ context.Context, key string, body Body, o PutOptions) (string, error) {
	if err := m.failed("PUT", key); err != nil {
		return "", err
	}
	content := make([]byte, body.Size)
	if _, err := body.Content.ReadAt(content, 0); err != nil && body.Size > 0 && err != io.EOF { //nolint:errorlint // readers end with EOF itself
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.holds(key, o.If); err != nil {
		return "", err
	}
	m.puts++
	version := fmt.Sprint("v", m.puts)
	m.objects[key] = stored{Info{Key: key, Size: body.Size, Modified: m.date(), Version: version, Writer: o.Writer}, content}
	return version, nil
}

// compose makes the object one that was composed of parts.
func (m *memory) compose(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	o.Version += "-2"
	m.objects[key] = o
}

// renew makes the object as new as a request that takes effect now.
func (m *memory) renew(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	o.Modified = m.date()
	m.objects[key] = o
}

func (m *memory) Head(_ context.Context, key string) (Info, error) {
	if err := m.failed("HEAD", key); err != nil {
		return Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return Info{}, storage.ErrNotExist
	}
	o.Now = m.Now()
	return o.Info, nil
}

func (m *memory) Get(ctx context.Context, key string, offset, _ int64) (io.ReadCloser, Info, error) {
	info, err := m.Head(ctx, key)
	if err != nil {
		return nil, info, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return io.NopCloser(bytes.NewReader(m.objects[key].content[offset:])), info, nil
}

func (m *memory) Touch(_ context.Context, key, version string) error {
	if err := m.failed("COPY", key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return storage.ErrNotExist
	}
	if o.Version != version {
		return storage.ErrConflict
	}
	o.Modified = m.date()
	if m.limits.Versioned {
		m.puts++
		o.Version = fmt.Sprint("v", m.puts)
	}
	m.objects[key] = o
	if m.lost != nil && m.lost("COPY") {
		return &Trouble{Err: errors.New("connection reset")}
	}
	return nil
}

func (m *memory) Delete(_ context.Context, key string, c storage.Condition) error {
	if err := m.failed("DELETE", key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limits.ConditionalDelete {
		if err := m.holds(key, c); err != nil {
			return err
		}
	}
	delete(m.objects, key)
	return nil
}

func (m *memory) DeleteMany(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := m.Delete(ctx, key, storage.Condition{}); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) List(_ context.Context, prefix string, o ListOptions) (Page, error) {
	if err := m.failed("LIST", prefix); err != nil {
		return Page{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	page := Page{Now: m.Now()}
	for key, o := range m.objects {
		if strings.HasPrefix(key, prefix) {
			page.Entries = append(page.Entries, o.Info)
		}
	}
	slices.SortFunc(page.Entries, func(x, y Info) int { return strings.Compare(x.Key, y.Key) })
	return page, nil
}
