package azure

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"slipway/registry/internal/storage/object"
)

// List implements object.Bucket. Azure continues after a marker, not after a key, so
// Page.Next holds both. A listing that begins after a key starts there if the store
// knows startFrom, otherwise at its first key, and earlier keys are left out.
func (b *Bucket) List(ctx context.Context, prefix string, o object.ListOptions) (object.Page, error) {
	after, marker, _ := strings.Cut(o.After, "\x00")
	q := container.ListBlobsHierarchyOptions{Prefix: to.Ptr(b.slash + prefix)}
	if skips := after > prefix && b.noStart.Load(); o.Max > 0 && !skips { // short pages would mostly hold what is left out
		q.MaxResults = to.Ptr(int32(min(o.Max, 5000))) //nolint:gosec // no more than 5,000
	}
	starts := marker == "" && after > prefix && !b.noStart.Load()
	if marker != "" {
		q.Marker = &marker
	} else if starts {
		q.StartFrom = to.Ptr(b.slash + after)
	}
	blobs, prefixes, next, err := b.list(ctx, &q, o.Delimited)
	if code := failureCode(err); starts && (code == "InvalidHeaderValue" || code == "InvalidQueryParameterValue" || code == "UnsupportedQueryParameter") {
		b.noStart.Store(true)
		return b.List(ctx, prefix, o)
	}
	if err != nil {
		return object.Page{}, err
	}
	page := object.Page{More: next != "", Now: b.clock.Now()}
	if page.More {
		page.Next = max(after, prefix) + "\x00" + next
	}
	for _, e := range blobs {
		key, ours := strings.CutPrefix(*e.Name, b.slash)
		if starts && key < after {
			b.noStart.Store(true) // Azurite takes startFrom and ignores it
		}
		p := e.Properties
		if !ours || key <= after || p.ResourceType != nil && *p.ResourceType == "directory" { // a hierarchical namespace lists those too
			continue
		}
		info := b.info(key, p.ContentLength, p.LastModified, p.ETag, nil)
		info.MD5 = hex.EncodeToString(p.ContentMD5)
		page.Entries = append(page.Entries, info)
	}
	for _, p := range prefixes {
		key, ours := strings.CutPrefix(*p.Name, b.slash)
		if starts && key < after && !strings.HasPrefix(after, key) {
			b.noStart.Store(true)
		}
		if ours && key > after {
			page.Entries = append(page.Entries, object.Info{Key: key, Prefix: true})
		}
	}
	slices.SortFunc(page.Entries, func(x, y object.Info) int { return cmp.Compare(x.Key, y.Key) })
	return page, nil
}

// list reads one page.
func (b *Bucket) list(ctx context.Context, q *container.ListBlobsHierarchyOptions, delimited bool) (blobs []*container.BlobItem, prefixes []*container.BlobPrefix, next string, err error) {
	var marker *string
	if delimited {
		page, err := b.api.NewListBlobsHierarchyPager("/", q).NextPage(ctx)
		if err != nil {
			return nil, nil, "", b.failed(ctx, err)
		}
		blobs, prefixes, marker = page.Segment.BlobItems, page.Segment.BlobPrefixes, page.NextMarker
	} else {
		page, err := b.api.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: q.Prefix, MaxResults: q.MaxResults, Marker: q.Marker, StartFrom: q.StartFrom}).NextPage(ctx)
		if err != nil {
			return nil, nil, "", b.failed(ctx, err)
		}
		blobs, marker = page.Segment.BlobItems, page.NextMarker
	}
	if marker != nil {
		next = *marker
	}
	return blobs, prefixes, next, nil
}
