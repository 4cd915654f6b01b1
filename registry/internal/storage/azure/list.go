package azure

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// listed is an answer to List Blobs.
type listed struct {
	Blobs struct {
		Blob []struct {
			Name       string
			Properties struct {
				LastModified  string `xml:"Last-Modified"`
				Etag          string
				ContentLength int64 `xml:"Content-Length"`
				ResourceType  string
				ContentMD5    string `xml:"Content-MD5"`
			}
		}
		BlobPrefix []struct{ Name string }
	}
	NextMarker string
}

// List implements object.Bucket. Azure goes on behind a marker, not behind a key, so
// Page.Next holds both. A listing that begins behind a key starts there where the store
// knows startFrom, else at its first key, and what comes before is left out.
func (b *Bucket) List(ctx context.Context, prefix string, o object.ListOptions) (object.Page, error) {
	after, marker, _ := strings.Cut(o.After, "\x00")
	q := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {b.slash + prefix}}
	if o.Delimited {
		q.Set("delimiter", "/")
	}
	if skips := after > prefix && b.noStart.Load(); o.Max > 0 && !skips { // short pages would mostly hold what is left out
		q.Set("maxresults", strconv.Itoa(o.Max))
	}
	h := http.Header{}
	starts := marker == "" && after > prefix && !b.noStart.Load()
	if marker != "" {
		q.Set("marker", marker)
	} else if starts {
		q.Set("startFrom", b.slash+after)
		set(h, "X-Ms-Version", startVersion)
	}
	resp, err := b.send(ctx, request{method: http.MethodGet, url: b.base, query: q, header: h})
	if code := failureCode(err); starts && (code == "InvalidHeaderValue" || code == "InvalidQueryParameterValue" || code == "UnsupportedQueryParameter") {
		b.noStart.Store(true)
		return b.List(ctx, prefix, o)
	}
	if err != nil {
		return object.Page{}, err
	}
	now := b.clock.Observe(resp)
	content, err := rest.Answer(ctx, resp)
	if err != nil {
		return object.Page{}, err
	}
	var l listed
	if err := xml.Unmarshal(content, &l); err != nil {
		return object.Page{}, &object.Trouble{Err: fmt.Errorf("the listing cannot be read: %w", err)}
	}
	page := object.Page{More: l.NextMarker != "", Now: now}
	if page.More {
		page.Next = max(after, prefix) + "\x00" + l.NextMarker
	}
	for i := range l.Blobs.Blob {
		e := &l.Blobs.Blob[i]
		key, ours := strings.CutPrefix(e.Name, b.slash)
		if starts && key < after {
			b.noStart.Store(true) // Azurite takes startFrom and ignores it
		}
		if !ours || key <= after || e.Properties.ResourceType == "directory" { // a hierarchical namespace lists those too
			continue
		}
		info := object.Info{Key: key, Size: e.Properties.ContentLength, Version: version(e.Properties.Etag)}
		info.Modified, _ = http.ParseTime(e.Properties.LastModified)
		if sum, err := base64.StdEncoding.DecodeString(e.Properties.ContentMD5); err == nil {
			info.MD5 = hex.EncodeToString(sum)
		}
		page.Entries = append(page.Entries, info)
	}
	for _, p := range l.Blobs.BlobPrefix {
		key, ours := strings.CutPrefix(p.Name, b.slash)
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
