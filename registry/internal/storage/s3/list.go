package s3

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// List implements object.Bucket. Page.Next is the last key, a NUL, and the store's token.
func (b *Bucket) List(ctx context.Context, prefix string, o object.ListOptions) (object.Page, error) {
	in := &s3.ListObjectsV2Input{Bucket: &b.c.Bucket, Prefix: &prefix, EncodingType: types.EncodingTypeUrl} // XML cannot hold some bytes
	after, token, more := strings.Cut(o.After, "\x00")
	switch {
	case more:
		in.ContinuationToken = &token
	case after > prefix:
		in.StartAfter = &after
	}
	if o.Delimited {
		in.Delimiter = aws.String("/")
	}
	if o.Max > 0 {
		in.MaxKeys = aws.Int32(int32(min(o.Max, 1000))) //nolint:gosec // no more than 1,000
	}
	out, err := b.api.ListObjectsV2(ctx, in)
	if err != nil {
		return object.Page{}, b.failed(ctx, err)
	}
	name := func(encoded *string) string {
		if out.EncodingType != types.EncodingTypeUrl { // the store doesn't encode
			return aws.ToString(encoded)
		}
		decoded, bad := url.QueryUnescape(aws.ToString(encoded))
		if bad != nil {
			err = fmt.Errorf("%w: a name in the listing: %w", storage.ErrUnavailable, bad)
		}
		return decoded
	}
	page := object.Page{Entries: make([]object.Info, 0, len(out.Contents)+len(out.CommonPrefixes)), More: aws.ToBool(out.IsTruncated), Now: b.clock.Now()}
	for _, p := range out.CommonPrefixes {
		page.Entries = append(page.Entries, object.Info{Key: name(p.Prefix), Prefix: true})
	}
	for _, c := range out.Contents {
		e := object.Info{Key: name(c.Key), Size: aws.ToInt64(c.Size), Modified: aws.ToTime(c.LastModified).Truncate(time.Second).UTC(), Version: version(c.ETag)}
		if len(e.Version) == 32 {
			e.MD5 = e.Version // unless the store encrypts with a key of its own: then it is the MD5 of nothing
		}
		page.Entries = append(page.Entries, e)
	}
	if len(out.Contents) > 0 && len(out.CommonPrefixes) > 0 {
		slices.SortFunc(page.Entries, func(x, y object.Info) int { return cmp.Compare(x.Key, y.Key) })
	}
	if page.More && err == nil {
		if n := len(page.Entries); n > 0 {
			after = page.Entries[n-1].Key
		}
		if next := aws.ToString(out.NextContinuationToken); next != "" {
			page.Next = max(after, prefix) + "\x00" + next
		} else if len(page.Entries) == 0 {
			err = fmt.Errorf("%w: the store says that its listing goes on, but not where", storage.ErrUnavailable)
		} // otherwise it continues after the last entry
	}
	return page, err
}
