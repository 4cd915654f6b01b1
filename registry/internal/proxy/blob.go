package proxy

import (
	"context"
	"io"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
)

// sizeOf asks the upstream for the size of a blob, unless it is being fetched.
func (c *Registry) sizeOf(ctx context.Context, s *Source, key blobKey) (int64, error) {
	c.mu.Lock()
	t := c.transfers[key]
	c.mu.Unlock()
	if t != nil {
		t.mu.Lock()
		size, state := t.size, t.state
		t.mu.Unlock()
		if size >= 0 && state != failed {
			return size, nil
		}
	}
	if err := c.refused(s, key); err != nil {
		return 0, err
	}
	return once(ctx, c, &c.sizes, key.String(), func() (int64, error) {
		size, err := s.Client.StatBlob(c.ctx, s.remote(key.name), key.digest)
		s.note(err)
		c.noteUnknown(key, err)
		return size, s.fault(err, oci.CodeBlobUnknown)
	})
}

func (c *Registry) noteUnknown(key any, err error) {
	if upstream.ReasonOf(err) == upstream.NotFound {
		c.unknown.Put(key, c.now().Add(c.opts.Unknown), 1)
	}
}

// openBlob opens a blob that the repository doesn't hold.
func (c *Registry) openBlob(ctx context.Context, s *Source, local registry.Repository, d oci.Digest) (*registry.Blob, error) {
	key := blobKey{local.Name(), d}
	if err := c.refused(s, key); err != nil {
		return nil, err
	}
	c.mu.Lock()
	r := c.join(ctx, key)
	c.mu.Unlock()
	if r == nil {
		if b := c.openMounted(ctx, s, local, key); b != nil {
			return b, nil
		}
		var err error
		if r, err = c.begin(ctx, s, local, key); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	size, err := r.ready()
	s.metrics.waited(time.Since(begun))
	if err != nil {
		_ = r.Close() // it has read nothing
		return nil, err
	}
	return registry.NewBlob(d, size, r, func(offset int64) (io.ReadCloser, error) {
		again, err := c.begin(ctx, s, local, key)
		if err == nil {
			again.at = offset
		}
		return again, err
	}), nil
}

// openMounted opens a blob whose bytes are stored already: they came a moment ago, or for
// another repository of the upstream, which is then asked whether this one has them too. It
// returns nil if they have to be fetched. Bytes of other repositories don't count: an upstream
// must not get at them by claiming that it has them.
func (c *Registry) openMounted(ctx context.Context, s *Source, local registry.Repository, key blobKey) *registry.Blob {
	if !local.HasBytes(ctx, key.digest) {
		return nil
	}
	if b, err := local.OpenBlob(ctx, key.digest); err == nil {
		return b
	}
	_, err := once(ctx, c, &c.sizes, "mount "+key.String(), func() (int64, error) {
		from, ok := c.origins.Get(origin{s, key.digest})
		if !ok {
			return 0, oci.NewError(oci.CodeBlobUnknown, nil)
		}
		if _, err := s.Client.StatBlob(c.ctx, s.remote(key.name), key.digest); err != nil {
			return 0, err
		}
		desc, err := local.MountBlob(c.ctx, key.digest, from, nil)
		if err == nil {
			c.origins.Put(origin{s, key.digest}, key.name, 1)
		}
		return desc.Size, err
	})
	if err != nil {
		return nil
	}
	b, _ := local.OpenBlob(ctx, key.digest)
	return b
}

// maxTransfers bounds the transfers, which continue when the clients that began them have left.
const maxTransfers = 4096

// join returns a reader of the transfer in progress, nil if there is none. The caller must hold mu.
func (c *Registry) join(ctx context.Context, key blobKey) *reader {
	t := c.transfers[key]
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == failed {
		return nil
	}
	t.users++
	return &reader{t: t, ctx: ctx}
}

// begin returns a reader of the transfer in progress, or of a new one.
func (c *Registry) begin(ctx context.Context, s *Source, local registry.Repository, key blobKey) (*reader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.join(ctx, key); r != nil {
		return r, nil
	}
	if len(c.transfers) >= maxTransfers {
		return nil, &oci.Error{Code: oci.CodeUnavailable, Message: "too many blobs are being fetched; try again", RetryAfter: time.Second}
	}
	t := &transfer{reg: c, src: s, local: local, key: key, size: -1, users: 2, changed: make(chan struct{}), done: make(chan struct{})}
	c.transfers[key] = t
	c.work.Go(func() { t.run(c.ctx) })
	return &reader{t: t, ctx: ctx}, nil
}

// landed ends the time in which readers may join.
func (c *Registry) landed(t *transfer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transfers[t.key] == t {
		delete(c.transfers, t.key)
	}
}

// settled blocks until the transfer of a blob, if there is one, has ended.
func (c *Registry) settled(ctx context.Context, key blobKey) error {
	c.mu.Lock()
	t := c.transfers[key]
	c.mu.Unlock()
	if t == nil {
		return nil
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
