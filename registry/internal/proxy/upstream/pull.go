package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"slipway/registry/internal/oci"
)

// accepted are the media types that a cache can store as they are.
var accepted = []string{oci.MediaTypeIndex + ", " + oci.MediaTypeManifest + ", " + oci.MediaTypeDockerList + ", " + oci.MediaTypeDockerManifest}

// Manifest is a manifest whose bytes match its digest.
type Manifest struct {
	Digest oci.Digest
	Bytes  []byte
}

// Head returns the digest that a tag points at, "" if the upstream doesn't send it.
func (c *Client) Head(ctx context.Context, name oci.Name, ref oci.Reference) (oci.Digest, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	resp, err := c.ask(ctx, http.MethodHead, name, c.at(string(name)+"/manifests/"+ref.String()), http.Header{"Accept": accepted}) //nolint:bodyclose // drain closes it
	if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusMethodNotAllowed {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	drain(resp.Body)
	d, err := oci.ParseDigest(resp.Header.Get("Docker-Content-Digest"))
	if err != nil {
		return "", nil //nolint:nilerr // the caller fetches the manifest
	}
	return d, nil
}

// Manifest fetches a manifest and verifies it.
func (c *Client) Manifest(ctx context.Context, name oci.Name, ref oci.Reference) (*Manifest, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	resp, err := c.ask(ctx, http.MethodGet, name, c.at(string(name)+"/manifests/"+ref.String()), http.Header{"Accept": accepted}) //nolint:bodyclose // read closes it
	if err != nil {
		return nil, err
	}
	body, err := read(resp.Body, c.opts.MaxManifest)
	if err != nil {
		return nil, err
	}
	want := ref.Digest
	if want == "" {
		want, _ = oci.ParseDigest(resp.Header.Get("Docker-Content-Digest"))
	}
	if want == "" {
		want = oci.SHA256.FromBytes(body)
	}
	if got := want.Algorithm().FromBytes(body); got != want {
		return nil, invalidAnswer("the manifest %s:%s has the digest %s, not %s", name, ref, got, want)
	}
	if err := checkManifest(body); err != nil {
		return nil, invalidAnswer("the answer for %s:%s is not a manifest: %w", name, ref, err)
	}
	return &Manifest{Digest: want, Bytes: body}, nil
}

// checkManifest is nil for a manifest or index. Other JSON may come from a redirect into a
// network that clients can't reach.
func checkManifest(body []byte) error {
	m, err := oci.ReadManifest(body)
	switch {
	case err != nil || oci.IsIndex(m.MediaType):
		return err
	case m.Config == nil:
		return errors.New("it has no config")
	}
	return nil
}

// StatBlob returns the size of a blob.
func (c *Client) StatBlob(ctx context.Context, name oci.Name, d oci.Digest) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	resp, err := c.ask(ctx, http.MethodHead, name, c.at(string(name)+"/blobs/"+string(d)), nil) //nolint:bodyclose // drain closes it
	if err != nil {
		return 0, err
	}
	drain(resp.Body)
	if resp.ContentLength < 0 {
		return 0, invalidAnswer("the size of blob %s is missing", d)
	}
	return resp.ContentLength, nil
}

// Body is a blob being received. Its bytes are not verified.
type Body struct {
	io.ReadCloser
	Size int64 // of the whole blob, -1 if unknown
}

// Blob fetches a blob from an offset. It waits while many others are received. ctx covers all reads, which fail if nothing arrives for
// Options.Stall, or less than Options.MinRate.
func (c *Client) Blob(ctx context.Context, name oci.Name, d oci.Digest, offset int64) (*Body, error) {
	if err := c.blobs.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	header := http.Header{}
	if offset > 0 {
		header.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
	}
	resp, err := c.ask(ctx, http.MethodGet, name, c.at(string(name)+"/blobs/"+string(d)), header) //nolint:bodyclose // body closes it
	if err != nil {
		cancel(nil)
		c.blobs.Release(1)
		return nil, err
	}
	b := &body{ctx: ctx, cancel: cancel, src: resp.Body, stall: c.opts.Stall, rate: c.opts.MinRate, release: sync.OnceFunc(func() { c.blobs.Release(1) })}
	b.timer = time.AfterFunc(c.opts.Stall, func() { cancel(errStalled) })
	b.timer.Stop()
	size := resp.ContentLength
	if resp.StatusCode == http.StatusPartialContent {
		var start, end int64
		size = -1 // as in "bytes 5-9/*"
		if n, _ := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &start, &end, &size); n < 2 || start != offset {
			_ = b.Close()
			return nil, invalidAnswer("the range of blob %s begins at another offset", d)
		}
		return &Body{b, size}, nil
	}
	if offset > 0 { // the upstream ignores ranges
		if _, err := io.CopyN(io.Discard, b, offset); err != nil {
			_ = b.Close()
			return nil, &Error{Reason: Down, Err: err}
		}
	}
	return &Body{b, size}, nil
}

// body fails reads from an upstream that pauses or trickles. Only the time spent waiting for
// the upstream counts: the reader may be slow.
type body struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	src    io.ReadCloser
	stall  time.Duration
	rate   int64 // bytes a second at least, over stall
	timer  *time.Timer

	release func() // makes room for another blob

	waited time.Duration // since the rate was last checked
	came   int64         // bytes since then
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	begun := time.Now()
	b.timer.Reset(b.stall)
	n, err := b.src.Read(p)
	b.timer.Stop()
	b.waited += time.Since(begun)
	b.came += int64(n)
	if b.waited >= b.stall && err == nil {
		if float64(b.came) < float64(b.rate)*b.waited.Seconds() {
			b.cancel(errTrickles)
			return n, &Error{Reason: Slow, Err: errTrickles}
		}
		b.waited, b.came = 0, 0
	}
	if err != nil && err != io.EOF { //nolint:errorlint // readers return EOF unwrapped
		err = unreachable(b.ctx, err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.release()
	b.timer.Stop()
	b.cancel(nil)
	return b.src.Close()
}
