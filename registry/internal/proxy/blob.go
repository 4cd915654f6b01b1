package proxy

import (
	"context"
	"io"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/upstream"
)

const octetStream = "application/octet-stream"

// StatBlob implements registry.Upstream. Nothing is cached.
func (c *Cache) StatBlob(ctx context.Context, r registry.Repository, d oci.Digest) (oci.Descriptor, error) {
	s := c.source(r.Name())
	s.metrics.miss(true)
	key := blobKey{r.Name(), d}
	size, err := c.sizeOf(ctx, s, key)
	return oci.Descriptor{MediaType: octetStream, Digest: d, Size: size}, err
}

func (c *Cache) sizeOf(ctx context.Context, s *Source, key blobKey) (int64, error) {
	c.mu.Lock()
	f := c.flights[key]
	c.mu.Unlock()
	if f != nil {
		if size, ok := f.known(); ok {
			return size, nil
		}
	}
	if err := c.refused(s, key); err != nil {
		return 0, err
	}
	return c.stats.start(c, key, func(ctx context.Context) (int64, error) {
		size, err := s.Client.StatBlob(ctx, s.remote(key.name), key.digest)
		s.note(err)
		c.noteUnknown(key, err)
		return size, s.fault(err, oci.CodeBlobUnknown)
	}).wait(ctx)
}

func (c *Cache) noteUnknown(key any, err error) {
	if upstream.ReasonOf(err) == upstream.NotFound {
		c.unknown.put(key, c.now().Add(c.opts.Unknown), 1)
	}
}

// OpenBlob implements registry.Upstream: the blob is read while it comes, by all who want it
// at the same time.
func (c *Cache) OpenBlob(ctx context.Context, r registry.Repository, d oci.Digest) (*registry.Blob, error) {
	s := c.source(r.Name())
	s.metrics.miss(true)
	key := blobKey{r.Name(), d}
	if err := c.refused(s, key); err != nil {
		return nil, err
	}
	reader, err := c.attach(ctx, s, r, key)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	size, err := reader.ready(ctx)
	s.metrics.waited(time.Since(begun))
	if err != nil {
		_ = reader.Close() // it has read nothing
		return nil, err
	}
	return registry.NewBlob(d, size, reader, func(offset int64) (io.ReadCloser, error) {
		again, err := c.attach(ctx, s, r, key)
		if err != nil {
			return nil, err
		}
		if _, err := again.ready(ctx); err != nil {
			_ = again.Close() // as above
			return nil, err
		}
		_, err = again.Seek(offset, io.SeekStart)
		return again, err
	}), nil
}

// maxFlights is how many transfers may be under way or wait for a connection: they go on
// when their clients have left, who could begin any number.
const maxFlights = 4096

// attach is a reader of the transfer under way, or of one that it begins. UNAVAILABLE.
func (c *Cache) attach(ctx context.Context, s *Source, r registry.Repository, key blobKey) (*reader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flights[key]; f != nil {
		if reader, ok := f.attach(ctx); ok {
			return reader, nil
		}
	}
	if len(c.flights)+int(c.stuck.Load()) >= maxFlights {
		return nil, &oci.Error{Code: oci.CodeUnavailable, Message: "too many blobs are being fetched; try again", RetryAfter: time.Second}
	}
	f := newFlight(c, s, r, key)
	c.flights[key] = f
	reader, _ := f.attach(ctx) // a new one takes everybody
	c.work.Go(func() { f.run(c.ctx) })
	return reader, nil
}

// landed lets nobody join the flight any more.
func (c *Cache) landed(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[f.key] == f {
		delete(c.flights, f.key)
	}
}
