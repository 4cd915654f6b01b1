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
	"path"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

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

	byHandLimit = 256 << 20 // of a blob that an emulator replaces
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
		if f, ok := errors.AsType[*Failure](err); ok && f.Status == http.StatusNotImplemented && size == blockSize {
			b.noCopy.Store(true)
			b.http.CloseIdleConnections() // Azurite is about to close them
			return b.compose(ctx, key, sources, o)
		}
		return "", err
	}
	ids := make([]string, len(blocks))
	for i, one := range blocks {
		ids[i] = one.id
	}
	out, err := b.blob(key).CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{Metadata: metadata(o), AccessConditions: conditions(o.If)})
	if err != nil {
		return "", b.failed(ctx, err)
	}
	return version(out.ETag), nil
}

// split cuts the sources into blocks, whose ids are unique.
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
	if b.noCopy.Load() {
		content, err := b.readBlock(ctx, one)
		if err != nil {
			return err
		}
		_, err = b.blob(key).StageBlock(ctx, one.id, streaming.NopCloser(content), nil)
		return b.failed(ctx, err)
	}
	from, token, err := b.readable(ctx, one.source)
	if err != nil {
		return err
	}
	_, err = b.blob(key).StageBlockFromURL(ctx, one.id, from, &blockblob.StageBlockFromURLOptions{
		CopySourceAuthorization: token, Range: blob.HTTPRange{Offset: one.offset, Count: one.size},
	})
	return b.failed(ctx, err)
}

// readable returns a URL by which the store reads a blob by itself, and the token that it needs.
func (b *Bucket) readable(ctx context.Context, source string) (from string, token *string, err error) {
	if b.expires {
		from, err = b.SignedURL(ctx, http.MethodGet, source, readGrant, object.URLOptions{})
		return from, nil, err
	}
	t, err := b.grants.tokens.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{"https://storage.azure.com/.default"}})
	return b.blob(source).URL(), to.Ptr("Bearer " + t.Token), err
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
	if b.noCopy.Load() {
		body, _, err := b.Get(ctx, source, 0, -1)
		if err != nil {
			return "", err
		}
		defer body.Close()
		content, err := io.ReadAll(io.LimitReader(body, byHandLimit))
		if err != nil {
			return "", rest.Failed(ctx, err)
		}
		return b.Put(ctx, key, object.Body{Content: bytes.NewReader(content), Size: info.Size}, o)
	}
	from, token, err := b.readable(ctx, source)
	if err != nil {
		return "", err
	}
	out, err := b.blob(key).UploadBlobFromURL(ctx, from, &blockblob.UploadBlobFromURLOptions{
		CopySourceAuthorization: token, Metadata: metadata(o), AccessConditions: conditions(o.If),
	})
	if err != nil {
		return "", b.failed(ctx, err)
	}
	return version(out.ETag), nil
}
