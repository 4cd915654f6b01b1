package azure

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

const (
	staging   = 8             // blocks that are written at the same time
	blockSize = 100 << 20     // of a block that is copied; Azure allows 4000 MiB
	byHand    = 8 << 20       // of one that goes through this process
	readGrant = 2 * time.Hour // of the store to itself
	copyLimit = 5_000 << 20   // of Put Blob From URL
)

// block is a part of a source.
type block struct {
	id     string
	source string
	offset int64
	size   int64
}

// Compose implements object.Bucket: blocks that the store reads by itself, and their list. Azurite
// cannot read them; then they go through this process.
func (b *Bucket) Compose(ctx context.Context, key string, sources []object.Source, o object.PutOptions) (string, error) {
	v, err := b.compose(ctx, key, sources, o)
	if failureCode(err) != "InvalidBlobType" {
		return v, err
	}
	// The key holds an append blob, as distribution writes them: it takes no blocks and can
	// only be replaced whole.
	beside := path.Dir(key) + "/.compose-" + strings.ToLower(rand.Text())
	if _, err := b.compose(ctx, beside, sources, object.PutOptions{}); err != nil {
		return "", err
	}
	defer func() {
		_ = b.Delete(object.WithSent(context.WithoutCancel(ctx), time.Now()), beside, storage.Condition{})
	}()
	return b.replace(ctx, key, beside, o)
}

func (b *Bucket) compose(ctx context.Context, key string, sources []object.Source, o object.PutOptions) (string, error) {
	size := int64(blockSize)
	if b.noCopy.Load() {
		size = byHand
	}
	blocks := split(sources, size)
	if err := b.stage(ctx, key, blocks); err != nil {
		if notImplemented(err) && size == blockSize {
			b.noCopy.Store(true)
			return b.compose(ctx, key, sources, o)
		}
		return "", err
	}
	var list strings.Builder
	list.WriteString("<BlockList>")
	for _, one := range blocks {
		list.WriteString("<Latest>" + one.id + "</Latest>")
	}
	list.WriteString("</BlockList>")
	text := list.String()
	return b.write(ctx, request{
		method: http.MethodPut, url: b.blobURL(key), query: url.Values{"comp": {"blocklist"}}, header: writeHeader(o),
		body: object.Body{Content: strings.NewReader(text), Size: int64(len(text))},
	})
}

func notImplemented(err error) bool {
	var f *Failure
	return errors.As(err, &f) && f.Status == http.StatusNotImplemented
}

// split cuts the sources into blocks, whose ids nobody else uses.
func split(sources []object.Source, size int64) []block {
	var blocks []block
	run := rand.Text()[:16]
	for _, s := range sources {
		for offset := int64(0); offset < s.Size; offset += size {
			id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s%08d", run, len(blocks)))
			blocks = append(blocks, block{id, s.Key, offset, min(size, s.Size-offset)})
		}
	}
	return blocks
}

// stage writes the blocks, some at a time. After an error no more are begun.
func (b *Bucket) stage(ctx context.Context, key string, blocks []block) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	free := make(chan struct{}, staging)
	for _, one := range blocks {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-free }()
			if err := b.stageOne(ctx, key, one); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func (b *Bucket) stageOne(ctx context.Context, key string, one block) error {
	r := request{method: http.MethodPut, url: b.blobURL(key), query: url.Values{"comp": {"block"}, "blockid": {one.id}}, header: http.Header{}}
	if b.noCopy.Load() {
		content, err := b.readBlock(ctx, one)
		if err != nil {
			return err
		}
		r.body = object.Body{Content: content, Size: one.size}
	} else {
		if err := b.copyFrom(ctx, r.header, one.source); err != nil {
			return err
		}
		set(r.header, "X-Ms-Source-Range", fmt.Sprintf("bytes=%d-%d", one.offset, one.offset+one.size-1))
	}
	resp, err := b.send(ctx, r)
	if err != nil {
		return err
	}
	rest.Drop(resp)
	return nil
}

// copyFrom lets the store read a blob by itself.
func (b *Bucket) copyFrom(ctx context.Context, h http.Header, source string) error {
	from, err := b.SignedURL(ctx, http.MethodGet, source, readGrant, object.URLOptions{})
	if err == nil {
		set(h, "X-Ms-Copy-Source", from)
		return nil
	}
	t, isToken := b.credential.(*token)
	if !isToken {
		return err
	}
	text, err := t.fresh(ctx)
	if err != nil {
		return err
	}
	set(h, "X-Ms-Copy-Source", b.blobURL(source).String())
	set(h, "X-Ms-Copy-Source-Authorization", "Bearer "+text)
	return nil
}

// readBlock reads a block into memory.
func (b *Bucket) readBlock(ctx context.Context, one block) (*bytes.Reader, error) {
	body, _, err := b.Get(ctx, one.source, one.offset, one.size)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	content := make([]byte, one.size)
	if _, err := io.ReadFull(body, content); err != nil {
		return nil, rest.Failed(ctx, err)
	}
	return bytes.NewReader(content), nil
}

// replace puts the content of one blob in the place of another, of whatever type that is.
func (b *Bucket) replace(ctx context.Context, key, source string, o object.PutOptions) (string, error) {
	info, err := b.Head(ctx, source)
	if err != nil {
		return "", err
	}
	if info.Size > copyLimit {
		return "", fmt.Errorf("%s holds an append blob, which cannot be replaced by %d bytes: delete it first", key, info.Size)
	}
	r := request{method: http.MethodPut, url: b.blobURL(key), header: writeHeader(o)}
	set(r.header, "X-Ms-Blob-Type", "BlockBlob")
	if !b.noCopy.Load() {
		if err := b.copyFrom(ctx, r.header, source); err != nil {
			return "", err
		}
		return b.write(ctx, r)
	}
	body, _, err := b.Get(ctx, source, 0, -1)
	if err != nil {
		return "", err
	}
	defer body.Close()
	r.body = object.Body{Content: &inOrder{r: body}, Size: info.Size}
	return b.write(ctx, r)
}

// inOrder is an io.ReaderAt that is read once, from the start on.
type inOrder struct {
	r  io.Reader
	at int64
}

// ReadAt implements io.ReaderAt.
func (s *inOrder) ReadAt(p []byte, offset int64) (int, error) {
	if offset != s.at {
		return 0, fmt.Errorf("read at %d instead of %d", offset, s.at)
	}
	n, err := io.ReadFull(s.r, p)
	s.at += int64(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}
