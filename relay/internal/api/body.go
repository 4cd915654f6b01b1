package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"slipway/relay/internal/relay"
)

const (
	firstRead = 2 << 10
	bodyTime  = 60 * time.Second // in all; that it moves on at all is the server's business
	maxPooled = 64 << 10
)

// buffers are reused from request to request.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, firstRead); return &b }}

func release(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// readBody reads the whole body into a buffer that grows with what arrives,
// not with what is announced. The caller releases it.
func (a *API) readBody(r *http.Request) (*[]byte, error) {
	limit := int(a.o.MaxBody)
	if r.ContentLength > a.o.MaxBody {
		return nil, tooLarge(limit)
	}
	p := buffers.Get().(*[]byte)
	b, began := *p, time.Now()
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			err = tooLarge(limit)
		case errors.Is(err, io.EOF):
			*p = b
			return p, nil
		case err != nil:
			err = unreadable(err)
		case time.Since(began) > bodyTime:
			err = unreadable(os.ErrDeadlineExceeded)
		}
		if err != nil {
			*p = b
			release(p)
			return nil, err
		}
	}
}

func tooLarge(limit int) error {
	return &relay.Error{Kind: relay.KindTooLarge, Message: fmt.Sprintf("A body may have %d bytes.", limit)}
}

func unreadable(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &statusError{http.StatusRequestTimeout, "timeout", "The body did not arrive in time."}
	}
	return &relay.Error{Kind: relay.KindInvalid, Message: "The body could not be read to its end.", Err: err}
}
