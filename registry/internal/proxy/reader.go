package proxy

import (
	"context"
	"errors"
	"io"

	"slipway/registry/internal/oci"
)

// reader reads a transfer from its start. One goroutine uses it.
type reader struct {
	t   *transfer
	ctx context.Context
	at  int64
	own *download // after the transfer has failed
}

// ready blocks until the size of the blob is known.
func (r *reader) ready() (int64, error) {
	for {
		t := r.t
		t.mu.Lock()
		size, state, err, changed := t.size, t.state, t.err, t.changed
		t.mu.Unlock()
		switch {
		case err != nil:
			return 0, err
		case size >= 0:
			return size, nil
		case state == failed:
			return 0, t.src.fault(invalid("the upstream didn't send the size of a blob that can't be stored"), "")
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
}

// Read implements io.Reader. It waits for bytes that have not arrived.
func (r *reader) Read(p []byte) (int, error) {
	t := r.t
	for len(p) > 0 {
		t.mu.Lock()
		got, size, state, err, changed := t.got, t.size, t.state, t.err, t.changed
		t.mu.Unlock()
		switch {
		case r.at < got:
			n, err := t.file.ReadAt(p[:min(int64(len(p)), got-r.at)], r.at)
			r.at += int64(n)
			if n > 0 {
				return n, nil
			}
			return 0, err
		case size >= 0 && r.at >= size:
			return 0, io.EOF
		case err != nil:
			return 0, err
		case state == failed:
			return r.readOn(p, got)
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
	return 0, nil
}

// readOn reads what the transfer could not spool, after the first got bytes.
func (r *reader) readOn(p []byte, got int64) (int, error) {
	if r.own == nil || r.own.at > r.at {
		r.leave()
		r.own = r.t.reg.download(r.ctx, r.t.src, r.t.key, func() bool { return true })
		r.own.at, r.own.size = got, r.t.size
		if _, err := io.Copy(r.own.hash, io.NewSectionReader(r.t.file, 0, got)); err != nil {
			return 0, err
		}
	}
	for { // the client may have skipped bytes
		n, err := r.own.Read(p)
		if err != nil {
			return 0, r.t.src.fault(err, oci.CodeBlobUnknown)
		}
		if past := r.own.at - r.at; past > 0 {
			r.at = r.own.at
			return copy(p, p[int64(n)-min(past, int64(n)):n]), nil
		}
	}
}

// Seek implements io.Seeker, from the start only.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekStart || offset < 0 {
		return 0, errors.New("a reader of a blob seeks from its start")
	}
	r.at = offset
	return offset, nil
}

func (r *reader) leave() {
	if r.own != nil {
		r.own.close()
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.leave()
	r.t.release()
	return nil
}
