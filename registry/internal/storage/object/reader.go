package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"slipway/registry/internal/storage"
)

// reader reads an object. If a connection breaks it continues with another, as long
// as the object is the same.
type reader struct {
	c              *Client
	ctx            context.Context
	key            string
	offset, length int64
	info           Info
	body           io.ReadCloser
	cancel         context.CancelFunc
	watchdog       *time.Timer
	tries          int
}

// maxReopen is the number of times that one reader begins again.
const maxReopen = 5

func (r *reader) open() error {
	type opened struct {
		body   io.ReadCloser
		info   Info
		cancel context.CancelFunc
	}
	got, err := read(r.ctx, r.c, func(short context.Context) (opened, error) {
		// The body outlives this call, and with it the deadline of the request.
		ctx, cancel := context.WithCancel(r.ctx)
		stop := context.AfterFunc(short, cancel)
		body, info, err := r.c.b.Get(ctx, r.c.root+r.key, r.offset, r.length)
		if !stop() && err == nil {
			body.Close()
			err = context.DeadlineExceeded
		}
		if err != nil {
			cancel()
			if r.ctx.Err() == nil && errors.Is(err, context.Canceled) {
				err = context.DeadlineExceeded
			}
		}
		return opened{body, info, cancel}, err
	})
	if err != nil {
		return err
	}
	if r.info.Version != "" && got.info.Version != r.info.Version {
		got.body.Close()
		got.cancel()
		return fmt.Errorf("%w: it was replaced while it was read", storage.ErrUnavailable)
	}
	r.body, r.info, r.cancel = got.body, got.info, got.cancel
	r.watchdog = time.AfterFunc(r.c.stall, got.cancel)
	r.watchdog.Stop()
	return nil
}

func (r *reader) Read(p []byte) (n int, err error) {
	r.watchdog.Reset(r.c.stall)
	n, err = r.body.Read(p)
	r.watchdog.Stop()
	r.offset += int64(n)
	if r.length > 0 {
		r.length = max(r.length-int64(n), 0)
	}
	if err == nil || err == io.EOF { //nolint:errorlint // readers end with EOF itself
		return n, err
	}
	if r.tries++; r.tries > maxReopen || r.ctx.Err() != nil || r.info.Version == "" {
		return n, unavailable(err)
	}
	_ = r.Close()
	if err := r.open(); err != nil {
		return n, err
	}
	return n, nil
}

func (r *reader) Close() error {
	r.cancel()
	return r.body.Close()
}
