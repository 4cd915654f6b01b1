package proxy

import (
	"context"
	"errors"
	"hash"
	"io"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/proxy/upstream"
)

// download reads one blob from an upstream. It resumes a connection that breaks, and returns
// the last bytes only if all of them match the digest.
type download struct {
	src    *Source
	key    blobKey
	log    *zap.Logger
	ctx    context.Context
	wanted func() bool // reports whether a reader still wants the blob

	size int64 // -1 = unknown
	at   int64
	hash hash.Hash // of the bytes before at
	body *upstream.Body

	broke time.Time // the first break since the last progress; zero = none
	mark  int64     // at, when it broke then
	tries int       // since then
}

// Bounds of a download that breaks.
const (
	resumeProgress = 1 << 20 // bytes after which a break counts as the first one again
	resumeWait     = 250 * time.Millisecond
	maxResumeWait  = 5 * time.Second
)

func (c *Registry) download(ctx context.Context, s *Source, key blobKey, wanted func() bool) *download {
	return &download{
		src: s, key: key, ctx: ctx, wanted: wanted, size: -1, hash: key.digest.Algorithm().New(),
		log: c.opts.Log.With(zap.String("upstream", s.Name), zap.String("repository", string(key.name)), zap.String("digest", string(key.digest))),
	}
}

// connect asks the upstream for the bytes from d.at on, if it isn't sending them.
func (d *download) connect() error {
	if d.body != nil {
		return nil
	}
	body, err := d.src.Client.Blob(d.ctx, d.src.remote(d.key.name), d.key.digest, d.at)
	if err != nil {
		return err
	}
	d.body = body
	switch {
	case body.Size < 0 || body.Size == d.size:
	case d.size >= 0:
		return invalid("the size of the blob has changed")
	case body.Size < d.at:
		return invalid("the upstream sent more bytes than the blob has")
	default:
		d.size = body.Size
	}
	if d.at == d.size {
		return d.verify()
	}
	return nil
}

func invalid(text string) error {
	return &upstream.Error{Reason: upstream.Invalid, Err: errors.New(text)}
}

// verify is nil if the bytes before d.at match the digest.
func (d *download) verify() error {
	if got := d.key.digest.Algorithm().Digest(d.hash.Sum(nil)); got != d.key.digest {
		return invalid("the bytes have the digest " + string(got))
	}
	return nil
}

// Read implements io.Reader. The error is an *upstream.Error or that of the context.
func (d *download) Read(p []byte) (int, error) {
	for {
		if d.at == d.size {
			d.src.note(nil)
			return 0, io.EOF
		}
		n, err := d.read(p)
		if err == nil || err == io.EOF { //nolint:errorlint // readers return EOF unwrapped
			return n, err
		}
		d.close()
		d.src.note(err)
		if err := d.pause(err); err != nil {
			return 0, err
		}
	}
}

// read is Read without resuming.
func (d *download) read(p []byte) (int, error) {
	if err := d.connect(); err != nil {
		return 0, err
	}
	n, err := d.body.Read(p)
	if d.size >= 0 && d.at+int64(n) > d.size {
		return 0, invalid("the upstream sent more bytes than the blob has")
	}
	d.hash.Write(p[:n]) //nolint:errcheck // a hash never fails
	d.at += int64(n)
	d.src.metrics.pulled(true, int64(n))
	if err == io.EOF && d.size < 0 { //nolint:errorlint // readers return EOF unwrapped
		d.size = d.at
	}
	switch {
	case d.at == d.size:
		return n, d.verify()
	case n > 0:
		return n, nil // an error comes again
	case err == io.EOF: //nolint:errorlint // as above
		return 0, &upstream.Error{Reason: upstream.Down, Err: io.ErrUnexpectedEOF}
	}
	return 0, err
}

// pause waits before the next attempt after a break. It returns the cause if there is no use
// in one: nothing has come yet, no reader waits, or it took too long already.
func (d *download) pause(cause error) error {
	switch upstream.ReasonOf(cause) {
	case upstream.Down, upstream.Slow, upstream.Fault:
	default:
		return cause
	}
	if d.broke.IsZero() || d.at-d.mark >= resumeProgress {
		d.broke, d.mark, d.tries = time.Now(), d.at, 0
	}
	if d.at == 0 || !d.wanted() || time.Since(d.broke) > d.src.cache.opts.Resume {
		return cause
	}
	if d.tries == 0 {
		d.log.Info("a transfer from an upstream broke and is resumed", zap.Int64("bytes", d.at), zap.Error(cause))
	}
	wait := min(resumeWait<<min(d.tries, 10), maxResumeWait)
	d.tries++
	select {
	case <-time.After(wait):
		return nil
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
}

func (d *download) close() {
	if d.body != nil {
		_ = d.body.Close() // everything of use was read
		d.body = nil
	}
}
