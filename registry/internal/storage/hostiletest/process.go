package hostiletest

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // what stores list, not a signature
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"slipway/registry/internal/storage"
	store "slipway/registry/internal/storage/object"
)

// Process is the store of one registry.
type Process struct {
	*store.Store
	requests *requests
}

var _ storage.Store = (*Process)(nil)

// Process returns another process that uses the bucket. Close ends it.
func (b *Bucket) Process() *Process {
	r := &requests{b: b}
	client := store.NewClient(r, "root", r.Limits(), store.Timing{Pause: time.Millisecond})
	return &Process{store.New(client, store.Options{Spool: b.spool, SpoolMax: 8 << 20}), r}
}

// Kill ends the process as SIGKILL would: it sends no request any more.
func (p *Process) Kill() { p.requests.dead.Store(true) }

// Close implements storage.Store.
func (p *Process) Close() error {
	err := p.Store.Close()
	p.requests.dead.Store(true)
	p.requests.b.awaitLate()
	return errors.Join(err, os.RemoveAll(p.requests.b.spool))
}

// requests is a store.Bucket for one process.
type requests struct {
	b    *Bucket
	dead atomic.Bool
}

// alive is called before each request.
func (r *requests) alive() error {
	if r.dead.Load() {
		return fmt.Errorf("%w: this process is dead", storage.ErrUnavailable)
	}
	return nil
}

func (o *object) info(key string, now time.Time) store.Info {
	return store.Info{Key: key, Size: int64(len(o.content)), Modified: o.modified, Version: o.version, Writer: o.writer, Now: now}
}

// now is the clock as answers have it.
func (r *requests) now() time.Time { return r.Now().Truncate(time.Second) }

// Get implements object.Bucket.
func (r *requests) Get(_ context.Context, key string, offset, length int64) (io.ReadCloser, store.Info, error) {
	if err := r.alive(); err != nil {
		return nil, store.Info{}, err
	}
	o, err := r.b.get("GET", key)
	if err != nil {
		return nil, store.Info{}, err
	}
	content := o.content[min(offset, int64(len(o.content))):]
	if length >= 0 {
		content = content[:min(length, int64(len(content)))]
	}
	return io.NopCloser(bytes.NewReader(content)), o.info(key, r.now()), nil
}

// Head implements object.Bucket.
func (r *requests) Head(_ context.Context, key string) (store.Info, error) {
	if err := r.alive(); err != nil {
		return store.Info{}, err
	}
	o, err := r.b.get("HEAD", key)
	if err != nil {
		return store.Info{}, err
	}
	return o.info(key, r.now()), nil
}

// Put implements object.Bucket.
func (r *requests) Put(_ context.Context, key string, body store.Body, o store.PutOptions) (string, error) {
	if err := r.alive(); err != nil {
		return "", err
	}
	content := make([]byte, body.Size)
	if n, err := body.Content.ReadAt(content, 0); int64(n) < body.Size {
		return "", err
	}
	return "", r.b.put(key, content, o.Writer, o.If) // not every store answers with the version
}

// Touch implements object.Bucket.
func (r *requests) Touch(_ context.Context, key, version string) error {
	if err := r.alive(); err != nil {
		return err
	}
	return r.b.touch(key, version)
}

// Compose implements object.Bucket.
func (r *requests) Compose(_ context.Context, key string, sources []store.Source, o store.PutOptions) (string, error) {
	if err := r.alive(); err != nil {
		return "", err
	}
	var content []byte
	for i, s := range sources {
		part, err := r.b.get("GET", s.Key)
		if err != nil {
			return "", err
		}
		if int64(len(part.content)) != s.Size || i+1 < len(sources) && s.Size < minPart {
			return "", fmt.Errorf("source %d has %d bytes", i, len(part.content))
		}
		content = append(content, part.content...)
	}
	return "", r.b.put(key, content, o.Writer, o.If) // not every store answers with the version
}

// Delete implements object.Bucket.
func (r *requests) Delete(_ context.Context, key string, c storage.Condition) error {
	if err := r.alive(); err != nil {
		return err
	}
	return r.b.delete(key, c)
}

// DeleteMany implements object.Bucket.
func (r *requests) DeleteMany(ctx context.Context, keys []string) error {
	return errors.Join(slices.Collect(func(yield func(error) bool) {
		for _, key := range keys {
			if !yield(r.Delete(ctx, key, storage.Condition{})) {
				return
			}
		}
	})...)
}

// List implements object.Bucket.
func (r *requests) List(_ context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	if err := r.alive(); err != nil {
		return store.Page{}, err
	}
	names, more, err := r.b.list(prefix, o.After, !o.Delimited)
	if err != nil {
		return store.Page{}, err
	}
	page := store.Page{More: more, Now: r.now()}
	for _, n := range names {
		if n.prefix {
			page.Entries = append(page.Entries, store.Info{Key: n.key, Prefix: true})
			continue
		}
		i := n.info(n.key, time.Time{})
		i.Writer = ""
		if sum := md5.Sum(n.content); !r.b.o.ContentVersions { //nolint:gosec // what stores list, not a signature
			i.MD5 = hex.EncodeToString(sum[:])
		}
		page.Entries = append(page.Entries, i)
	}
	return page, nil
}

const minPart = 1 << 20

// Limits implements object.Bucket.
func (r *requests) Limits() store.Limits {
	o := r.b.o
	return store.Limits{
		MinPart: minPart, MaxPut: 1 << 40, MaxParts: 100, MaxDelete: 100, MaxLate: o.MaxLate, Versioned: !o.ContentVersions,
		ConditionalPut: !o.NoConditions, ConditionalDelete: !o.NoConditions && !o.DeleteIgnoresConditions,
	}
}

// AbortOld implements object.Bucket.
func (r *requests) AbortOld(context.Context, string, time.Time) error { return nil }

// Redirects implements object.Bucket.
func (r *requests) Redirects() bool { return false }

// SignedURL implements object.Bucket.
func (r *requests) SignedURL(context.Context, string, string, time.Duration, store.URLOptions) (string, error) {
	return "", errors.ErrUnsupported
}

// Now implements object.Bucket.
func (r *requests) Now() time.Time {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	return r.b.clock()
}

// Close implements object.Bucket.
func (r *requests) Close() error { return nil }
