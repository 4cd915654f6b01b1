package rest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"slipway/registry/internal/storage"
)

// Batches deletes many objects by one request, until the store refuses that. Its functions speak to the store.
type Batches struct {
	// Part is the deletion of one object, as a part of a batch.
	Part func(ctx context.Context, key string) (*http.Request, error)
	// Send sends a batch, and returns an answer of status 2xx. errors.ErrUnsupported if the store refuses it.
	Send func(ctx context.Context, body []byte, mediaType string) (*http.Response, error)
	// Delete deletes one object, which a batch has left, and says why it cannot.
	Delete func(ctx context.Context, key string, c storage.Condition) error

	refused atomic.Bool
}

// DeleteMany implements object.BatchDeleter.
func (b *Batches) DeleteMany(ctx context.Context, keys []string) error {
	if b.refused.Load() {
		return errors.ErrUnsupported
	}
	parts := make([]*http.Request, len(keys))
	for i, key := range keys {
		var err error
		if parts[i], err = b.Part(ctx, key); err != nil {
			return err
		}
	}
	body, mediaType := batch(parts)
	resp, err := b.Send(ctx, body, mediaType) //nolint:bodyclose // undeleted does
	var left []string
	if err == nil {
		left, err = undeleted(ctx, resp, keys)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		b.refused.Store(true)
	}
	if err != nil {
		return err
	}
	for _, key := range left {
		if err := b.Delete(ctx, key, storage.Condition{}); err != nil {
			return err
		}
	}
	return nil
}

// batch joins requests without bodies to the body of one, of the returned media type.
func batch(requests []*http.Request) (body []byte, mediaType string) {
	var b bytes.Buffer
	boundary := "batch_" + rand.Text()
	for i, r := range requests {
		fmt.Fprintf(&b, "--%s\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: %d\r\n\r\n", boundary, i)
		fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.Method, r.URL.RequestURI())
		_ = r.Header.Write(&b)
		b.WriteString("Content-Length: 0\r\n\r\n\r\n") // the last line belongs to the boundary
	}
	fmt.Fprintf(&b, "--%s--\r\n", boundary)
	return b.Bytes(), "multipart/mixed; boundary=" + boundary
}

// undeleted reads the answer to a batch that deletes keys, one with each part, and closes it. It returns those that
// may not be deleted. errors.ErrUnsupported if every part was refused; another error is one of Failed.
func undeleted(ctx context.Context, resp *http.Response, keys []string) (left []string, err error) {
	statuses, err := statuses(ctx, resp, len(keys))
	if err != nil {
		return nil, err
	}
	refused := 0
	for i, status := range statuses {
		if status/100 == 2 || status == http.StatusNotFound {
			continue
		}
		left = append(left, keys[i])
		if status < http.StatusInternalServerError && status != http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == len(keys) {
		return nil, errors.ErrUnsupported
	}
	return left, nil
}

// statuses are those of n parts of an answer, 0 where it does not say.
func statuses(ctx context.Context, resp *http.Response, n int) ([]int, error) {
	content, err := Answer(ctx, resp)
	if err != nil {
		return nil, err
	}
	all := make([]int, n)
	_, o, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	parts := multipart.NewReader(bytes.NewReader(content), o["boundary"])
	for {
		part, err := parts.NextRawPart()
		if err != nil {
			return all, nil //nolint:nilerr // the end, or what is no batch
		}
		id := strings.Trim(part.Header.Get("Content-Id"), "<>")
		i, err := strconv.Atoi(strings.TrimPrefix(id, "response-"))
		if err != nil || i < 0 || i >= n {
			continue
		}
		// Some leave out the line behind the header, as another one belongs to the boundary.
		if answer, err := http.ReadResponse(bufio.NewReader(io.MultiReader(part, strings.NewReader("\r\n\r\n"))), nil); err == nil {
			all[i] = answer.StatusCode
			answer.Body.Close()
		}
	}
}
