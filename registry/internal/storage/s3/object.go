package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// Head implements object.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (object.Info, error) {
	resp, err := b.send(ctx, &request{method: http.MethodHead, key: key})
	if err != nil {
		return object.Info{}, err
	}
	rest.Drop(resp)
	return b.info(key, resp, resp.ContentLength), nil
}

func (b *Bucket) info(key string, resp *http.Response, size int64) object.Info {
	modified, _ := http.ParseTime(resp.Header.Get("Last-Modified"))
	now, _ := http.ParseTime(resp.Header.Get("Date"))
	return object.Info{
		Key: key, Size: size, Modified: modified.UTC(), Version: version(resp.Header),
		Writer: resp.Header.Get("X-Amz-Meta-Writer"), Now: now,
	}
}

// errRange means that an object has no byte at an offset.
var errRange = errors.New("InvalidRange")

// Get implements object.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, object.Info, error) {
	r := &request{method: http.MethodGet, key: key, header: http.Header{}}
	switch {
	case length == 0:
		info, err := b.Head(ctx, key)
		return http.NoBody, info, err
	case length > 0:
		r.header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		r.header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := b.send(ctx, r)
	if errors.Is(err, errRange) {
		info, err := b.Head(ctx, key)
		return http.NoBody, info, err
	}
	if err != nil {
		return nil, object.Info{}, err
	}
	size := resp.ContentLength
	if resp.StatusCode == http.StatusPartialContent {
		_, total, _ := strings.Cut(resp.Header.Get("Content-Range"), "/")
		if size, err = strconv.ParseInt(total, 10, 64); err != nil {
			resp.Body.Close()
			return nil, object.Info{}, fmt.Errorf("the store answers a range with Content-Range %q", resp.Header.Get("Content-Range"))
		}
	} else if length > 0 || offset > 0 { // it may, and some proxies do
		if size < 0 {
			resp.Body.Close()
			return nil, object.Info{}, errors.New("the store answers a range with the whole object, and does not say how long that is")
		}
		return whole(resp, offset, length), b.info(key, resp, size), nil
	}
	return resp.Body, b.info(key, resp, size), nil
}

// whole reads a range of an answer that has all of an object.
func whole(resp *http.Response, offset, length int64) io.ReadCloser {
	r := &rangeOf{ReadCloser: resp.Body, skip: offset, left: max(resp.ContentLength-offset, 0)}
	if length >= 0 {
		r.left = min(r.left, length)
	}
	return r
}

// rangeOf reads left bytes behind the first ones.
type rangeOf struct {
	io.ReadCloser
	skip, left int64
}

func (r *rangeOf) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if r.skip > 0 {
		n, err := io.CopyN(io.Discard, r.ReadCloser, r.skip)
		if r.skip -= n; err != nil {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n, err := r.ReadCloser.Read(p[:min(int64(len(p)), r.left)])
	if r.left -= int64(n); err == io.EOF && r.left > 0 { //nolint:errorlint // readers end with EOF itself
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Put implements object.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body object.Body, o object.PutOptions) (string, error) {
	r := &request{method: http.MethodPut, key: key, header: b.putHeader(o), body: body, expire: o.Expire}
	condition(r.header, o.If)
	resp, err := b.send(ctx, r)
	if errors.Is(err, storage.ErrNotExist) && o.If.Version() != "" {
		err = storage.ErrConflict
	}
	if err != nil {
		return "", err
	}
	rest.Drop(resp)
	return version(resp.Header), nil
}

// Delete implements object.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string, c storage.Condition) error {
	r := &request{method: http.MethodDelete, key: key, header: http.Header{}, expire: true}
	condition(r.header, c)
	resp, err := b.send(ctx, r)
	if errors.Is(err, storage.ErrNotExist) && c == (storage.Condition{}) {
		return nil
	}
	if err != nil {
		return err
	}
	rest.Drop(resp)
	return nil
}

// Touch implements object.Bucket: a copy of the object onto itself.
func (b *Bucket) Touch(ctx context.Context, key string) error {
	if b.noTouch.Load() {
		return errors.ErrUnsupported
	}
	r := &request{method: http.MethodPut, key: key, header: b.putHeader(object.PutOptions{}), expire: true}
	r.header.Set("X-Amz-Copy-Source", escape(b.c.Bucket+"/"+key))
	r.header.Set("X-Amz-Metadata-Directive", "REPLACE") // else S3 refuses, as nothing would change
	result, err := b.result(ctx, r)
	if err != nil {
		return err
	}
	if result.ETag == "" { // a 200 can carry an error
		return b.meaning(&result.failure, http.StatusInternalServerError, 0)
	}
	// versitygw replaces the metadata only, and says so: the object is as old as it was.
	modified, err := time.Parse(time.RFC3339, result.LastModified)
	if err == nil && modified.Before(b.clock.Sent(ctx).Add(-touchError)) {
		b.noTouch.Store(true)
		return errors.ErrUnsupported
	}
	return nil
}

// touchError is how far the time of a copy may be from what is known of the store's clock. Clocks and
// answers have whole seconds. What was written within that time counts as renewed.
const touchError = 2 * time.Second

// MaxDelete implements object.BatchDeleter.
func (b *Bucket) MaxDelete() int { return 1000 }

// DeleteMany implements object.BatchDeleter.
func (b *Bucket) DeleteMany(ctx context.Context, keys []string) error {
	var text strings.Builder
	text.WriteString(`<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>`)
	for _, key := range keys {
		text.WriteString("<Object><Key>" + xmlText(key) + "</Key></Object>")
	}
	text.WriteString("</Delete>")
	body := bytesBody([]byte(text.String()))
	sum, err := sumMD5(body)
	if err != nil {
		return err
	}
	resp, err := b.send(ctx, &request{
		method: http.MethodPost, query: url.Values{"delete": {""}}, body: body, expire: true,
		header: http.Header{"Content-Type": {"application/xml"}, "Content-Md5": {sum}},
	})
	if err != nil {
		return err
	}
	content, err := rest.Answer(ctx, resp)
	if err != nil {
		return err
	}
	var result struct {
		Error []failure
	}
	if err := parse(content, &result); err != nil {
		return err
	}
	for _, f := range result.Error {
		if f.Code == "NoSuchKey" {
			continue
		}
		// One of many was refused for a moment, or for good.
		cause := fmt.Errorf("cannot delete %s: %s: %s", f.Key, f.Code, f.Message)
		if f.Code == "AccessDenied" {
			return fmt.Errorf("%w: %w", storage.ErrDenied, cause)
		}
		return &object.Trouble{Err: cause, Effect: object.Doubtful}
	}
	return nil
}

// listing is a page of a listing.
type listing struct {
	IsTruncated           bool
	NextContinuationToken string
	EncodingType          string
	Contents              []struct {
		Key          string
		LastModified time.Time
		ETag         string
		Size         int64
	}
	CommonPrefixes []struct{ Prefix string }
}

// List implements object.Bucket. Page.Next is the last key, a NUL, and the store's token.
func (b *Bucket) List(ctx context.Context, prefix string, o object.ListOptions) (object.Page, error) {
	q := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"}} // XML has no way to say some bytes
	after, token, more := strings.Cut(o.After, "\x00")
	switch {
	case more:
		q.Set("continuation-token", token)
	case after > prefix:
		q.Set("start-after", after)
	}
	if o.Delimited {
		q.Set("delimiter", "/")
	}
	if o.Max > 0 {
		q.Set("max-keys", strconv.Itoa(o.Max))
	}
	resp, err := b.send(ctx, &request{method: http.MethodGet, query: q})
	if err != nil {
		return object.Page{}, err
	}
	now, _ := http.ParseTime(resp.Header.Get("Date"))
	content, err := rest.Answer(ctx, resp)
	if err != nil {
		return object.Page{}, err
	}
	var l listing
	if err := parse(content, &l); err != nil {
		return object.Page{}, err
	}
	if err := l.decode(); err != nil {
		return object.Page{}, err
	}
	page := object.Page{Entries: make([]object.Info, 0, len(l.Contents)+len(l.CommonPrefixes)), More: l.IsTruncated, Now: now}
	for _, p := range l.CommonPrefixes {
		page.Entries = append(page.Entries, object.Info{Key: p.Prefix, Prefix: true})
	}
	for _, c := range l.Contents {
		e := object.Info{Key: c.Key, Size: c.Size, Modified: c.LastModified.Truncate(time.Second).UTC(), Version: strings.Trim(c.ETag, `"`)}
		if len(e.Version) == 32 {
			e.MD5 = e.Version // unless the store encrypts with a key of its own: then it is the MD5 of nothing
		}
		page.Entries = append(page.Entries, e)
	}
	if len(l.Contents) > 0 && len(l.CommonPrefixes) > 0 {
		sortEntries(page.Entries)
	}
	if page.More {
		if n := len(page.Entries); n > 0 {
			after = page.Entries[n-1].Key
		}
		if l.NextContinuationToken != "" {
			page.Next = max(after, prefix) + "\x00" + l.NextContinuationToken
		} else if len(page.Entries) == 0 {
			return object.Page{}, fmt.Errorf("%w: the store says that its listing goes on, but not where", storage.ErrUnavailable)
		} // else it goes on behind the last entry
	}
	return page, nil
}

// decode undoes the encoding of names, if the store has heeded the wish for one.
func (l *listing) decode() (err error) {
	if l.EncodingType != "url" {
		return nil
	}
	for i := range l.Contents {
		if l.Contents[i].Key, err = url.QueryUnescape(l.Contents[i].Key); err != nil {
			return fmt.Errorf("%w: a name in the listing: %w", storage.ErrUnavailable, err)
		}
	}
	for i := range l.CommonPrefixes {
		if l.CommonPrefixes[i].Prefix, err = url.QueryUnescape(l.CommonPrefixes[i].Prefix); err != nil {
			return fmt.Errorf("%w: a name in the listing: %w", storage.ErrUnavailable, err)
		}
	}
	return nil
}

// Redirects implements object.Signer.
func (b *Bucket) Redirects() bool { return true }

// SignedURL implements object.Signer. It works no longer than temporary credentials behind it.
func (b *Bucket) SignedURL(ctx context.Context, method, key string, expires time.Duration, o object.URLOptions) (string, error) {
	creds, err := b.credentials.Retrieve(ctx)
	if err != nil {
		return "", err
	}
	q := url.Values{"X-Amz-Expires": {strconv.Itoa(int(expires.Seconds()))}}
	if o.ContentType != "" {
		q.Set("response-content-type", o.ContentType)
	}
	req, err := b.build(ctx, b.public, &request{method: method, key: key, query: q})
	if err != nil {
		return "", err
	}
	req.Header = http.Header{}
	signed, _, err := b.signer.PresignHTTP(ctx, creds, req, unsigned, "s3", b.c.Region, b.clock.Now())
	return signed, err
}
