// Package gcs is a bucket of Google Cloud Storage as an object.Bucket. It speaks the
// JSON interface by requests of its own; requests that must expire, and URLs for
// clients, are signed and go to the XML interface.
package gcs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"slipway/registry/internal/cache"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// Options is which bucket and how it is reached.
type Options struct {
	Bucket    string
	Endpoint  string             // "" = Google's
	Tokens    oauth2.TokenSource // nil = requests are not authorized, for emulators
	Signer    *Signer            // nil = nothing can be signed
	UserAgent string
	// MaxLate is the longest time until a request that cannot be signed takes effect; 0 = 15 minutes.
	MaxLate time.Duration
}

// Bucket is a bucket.
type Bucket struct {
	o      Options
	base   *url.URL
	client *http.Client
	clock  rest.Clock
	urls   *cache.Cache[urlID, signedURL]
}

var _ object.Bucket = (*Bucket)(nil)

// Google is the default address of requests.
const Google = "https://storage.googleapis.com"

const (
	life       = 15 * time.Second // of a signed request
	clockError = 10 * time.Second // of what is known of the store's clock, which has whole seconds
	unsigned   = 15 * time.Minute

	// maxParts bounds a checkpoint, which names each. Google joins as many as there are.
	maxParts = 100_000
)

// New returns a bucket. It sends nothing; see Start.
func New(o Options) (*Bucket, error) {
	o.Endpoint, o.MaxLate = cmp.Or(o.Endpoint, Google), cmp.Or(o.MaxLate, unsigned)
	base, err := url.Parse(strings.TrimRight(o.Endpoint, "/"))
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of a storage service", o.Endpoint)
	}
	return &Bucket{o: o, base: base, client: rest.NewClient(false), urls: cache.New[urlID, signedURL](maxURLs)}, nil
}

// Limits implements object.Bucket.
func (b *Bucket) Limits() object.Limits {
	late := b.o.MaxLate
	if b.o.Signer != nil {
		late = life + clockError
	}
	return object.Limits{
		MinPart: object.MinPart, MaxPut: 256 << 20, MaxParts: maxParts, MaxLate: late, ConditionalPut: true, ConditionalDelete: true, Versioned: true,
		GetRight: "storage.objects.get", PutRight: "storage.objects.create", DeleteRight: "storage.objects.delete (role Storage Object Admin)",
	}
}

// Close implements object.Bucket.
func (b *Bucket) Close() error {
	b.client.CloseIdleConnections()
	return nil
}

// address is a URL below the endpoint; the elements of the path are escaped.
func (b *Bucket) address(query url.Values, elements ...string) string {
	var u strings.Builder
	u.WriteString(b.base.String())
	for _, e := range elements {
		u.WriteString("/" + e)
	}
	if len(query) > 0 {
		u.WriteString("?" + query.Encode())
	}
	return u.String()
}

// object is the address of an object in the JSON interface.
func (b *Bucket) object(key string, query url.Values, more ...string) string {
	return b.address(query, append([]string{"storage/v1/b", url.PathEscape(b.o.Bucket), "o", url.PathEscape(key)}, more...)...)
}

// send sends a request once and returns an answer of status 2xx, whose body the caller
// closes. A signed one carries its authorization in its URL.
func (b *Bucket) send(ctx context.Context, method, address string, header http.Header, body io.Reader, size int64, signed bool) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	if header != nil {
		req.Header = header
	}
	if b.o.UserAgent != "" {
		req.Header.Set("User-Agent", b.o.UserAgent)
	}
	if b.o.Tokens != nil && !signed {
		t, err := b.o.Tokens.Token()
		if err != nil {
			return nil, tokenFailed(err)
		}
		t.SetAuthHeader(req)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, rest.Failed(ctx, err)
	}
	b.clock.Observe(resp)
	if resp.StatusCode/100 != 2 {
		return nil, refusal(resp)
	}
	return resp, nil
}

var errNoToken = errors.New("no token")

// tokenFailed reports whether it is worth to ask for a token again.
func tokenFailed(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil && refused.Response.StatusCode/100 == 4 {
		reason := refused.ErrorDescription
		if reason == "" { // which the library reads for some kinds of credentials only
			var answer struct {
				Description string `json:"error_description"`
			}
			_ = json.Unmarshal(refused.Body, &answer)
			reason = answer.Description
		}
		return fmt.Errorf("%w: %w: Google answers %s %s", storage.ErrDenied, errNoToken, refused.Response.Status, reason)
	}
	return &object.Trouble{Err: fmt.Errorf("%w: %w", errNoToken, err), Effect: object.Refused}
}

// Failure is an answer that says no.
type Failure struct {
	Status  int
	Message string
}

// Error implements error.
func (f *Failure) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("Google answers %d: %s", f.Status, f.Message), ": ")
}

// noBucket is Google's message for a bucket that does not exist.
const noBucket = "The specified bucket does not exist."

// refusal reads an answer that is no success and closes it.
func refusal(resp *http.Response) error {
	defer resp.Body.Close()
	f := &Failure{Status: resp.StatusCode}
	content, _ := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	var told struct {
		Error struct{ Message string }
	}
	var toldXML struct{ Message string }
	if json.Unmarshal(content, &told) == nil {
		f.Message = told.Error.Message
	} else if xml.Unmarshal(content, &toldXML) == nil {
		f.Message = toldXML.Message
	}
	if err := rest.Status(resp, f); err != nil {
		if t, ok := errors.AsType[*object.Trouble](err); ok && f.Status == http.StatusServiceUnavailable {
			t.Effect = object.Doubtful
		}
		return err
	}
	switch {
	case f.Status == http.StatusNotFound && f.Message == noBucket:
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, f)
	case f.Status == http.StatusNotFound:
		return fmt.Errorf("%w: %w", storage.ErrNotExist, f)
	case f.Status == http.StatusPreconditionFailed || f.Status == http.StatusConflict:
		return fmt.Errorf("%w: %w", storage.ErrConflict, f)
	case f.Status == http.StatusBadRequest || f.Status == http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, f)
	case f.Status == http.StatusInsufficientStorage:
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, f)
	case f.Status == http.StatusForbidden || f.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", storage.ErrDenied, f)
	}
	return f
}

// match is the query of a condition. There is no generation 0 but that of no object.
func match(c storage.Condition) url.Values {
	switch {
	case c.Absent():
		return url.Values{"ifGenerationMatch": {"0"}}
	case c.Version() != "":
		return url.Values{"ifGenerationMatch": {c.Version()}}
	}
	return url.Values{}
}

// resource describes an object in the JSON interface.
type resource struct {
	Name       string            `json:"name,omitempty"`
	Size       string            `json:"size,omitempty"`
	Generation string            `json:"generation,omitempty"`
	Updated    time.Time         `json:"updated,omitzero"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	MD5Hash    []byte            `json:"md5Hash,omitempty"`
}

const fields = "name,size,generation,updated,metadata"

// info has whole seconds, as the headers of a download have them.
func (r *resource) info() object.Info {
	size, _ := strconv.ParseInt(r.Size, 10, 64)
	return object.Info{Key: r.Name, Size: size, Modified: r.Updated.Truncate(time.Second), Version: r.Generation, MD5: hex.EncodeToString(r.MD5Hash), Writer: r.Metadata["writer"]}
}

// answer reads an answer into v and returns the time of the store.
func answer(ctx context.Context, resp *http.Response, v any) (now time.Time, err error) {
	now, _ = http.ParseTime(resp.Header.Get("Date"))
	content, err := rest.Answer(ctx, resp)
	if err != nil {
		return now, err
	}
	if err := json.Unmarshal(content, v); err != nil {
		return now, &object.Trouble{Err: fmt.Errorf("an answer cannot be read: %w", err)}
	}
	return now, nil
}

// Head implements object.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (object.Info, error) {
	resp, err := b.send(ctx, http.MethodGet, b.object(key, url.Values{"fields": {fields}}), nil, nil, 0, false)
	if err != nil {
		return object.Info{}, err
	}
	var r resource
	now, err := answer(ctx, resp, &r)
	info := r.info()
	info.Now = now
	return info, err
}

// Get implements object.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, object.Info, error) {
	h := http.Header{}
	switch {
	case length == 0:
		info, err := b.Head(ctx, key)
		return http.NoBody, info, err
	case length > 0:
		h.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		h.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := b.send(ctx, http.MethodGet, b.object(key, url.Values{"alt": {"media"}}), h, nil, 0, false)
	if f, ok := errors.AsType[*Failure](err); ok && f.Status == http.StatusRequestedRangeNotSatisfiable {
		info, err := b.Head(ctx, key)
		return http.NoBody, info, err
	}
	if err != nil {
		return nil, object.Info{}, err
	}
	info := object.Info{Key: key, Size: resp.ContentLength, Version: resp.Header.Get("X-Goog-Generation"), Writer: resp.Header.Get("X-Goog-Meta-Writer")}
	info.Modified, _ = http.ParseTime(resp.Header.Get("Last-Modified"))
	info.Now, _ = http.ParseTime(resp.Header.Get("Date"))
	if _, total, ok := strings.Cut(resp.Header.Get("Content-Range"), "/"); ok {
		info.Size, _ = strconv.ParseInt(total, 10, 64)
	}
	if info.Version == "" || info.Modified.IsZero() || info.Size < 0 {
		// An emulator leaves them out.
		told, err := b.Head(ctx, key)
		if err != nil {
			resp.Body.Close()
			return nil, object.Info{}, err
		}
		info = told
	}
	return resp.Body, info, nil
}

// Put implements object.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body object.Body, o object.PutOptions) (string, error) {
	if o.Expire && b.o.Signer != nil {
		return b.putSigned(ctx, key, body, o)
	}
	about, err := json.Marshal(describe(key, o))
	if err != nil {
		return "", err
	}
	boundary := rand.Text()
	head := "--" + boundary + "\r\nContent-Type: application/json\r\n\r\n" + string(about) +
		"\r\n--" + boundary + "\r\nContent-Type: application/octet-stream\r\n\r\n"
	tail := "\r\n--" + boundary + "--\r\n"
	query := match(o.If)
	query.Set("uploadType", "multipart")
	query.Set("fields", fields)
	resp, err := b.send(ctx, http.MethodPost, b.address(query, "upload/storage/v1/b", url.PathEscape(b.o.Bucket), "o"),
		http.Header{"Content-Type": {"multipart/related; boundary=" + boundary}},
		io.MultiReader(strings.NewReader(head), rest.Content(body), strings.NewReader(tail)), int64(len(head)+len(tail))+body.Size, false)
	if err != nil {
		return "", err
	}
	return b.written(ctx, resp)
}

func (b *Bucket) written(ctx context.Context, resp *http.Response) (string, error) {
	var r resource
	_, err := answer(ctx, resp, &r)
	return r.Generation, err
}

func describe(key string, o object.PutOptions) resource {
	r := resource{Name: key}
	if o.Writer != "" {
		r.Metadata = map[string]string{"writer": o.Writer}
	}
	return r
}

// putSigned writes a small object by a request that expires.
func (b *Bucket) putSigned(ctx context.Context, key string, body object.Body, o object.PutOptions) (string, error) {
	h := signedHeaders(o.If)
	if o.Writer != "" {
		h.Set("X-Goog-Meta-Writer", o.Writer)
	}
	address, err := b.sign(ctx, http.MethodPut, key, life, h, nil)
	if err != nil {
		return "", err
	}
	resp, err := b.send(ctx, http.MethodPut, address, h, rest.Content(body), body.Size, true)
	if err != nil {
		return "", err
	}
	rest.Drop(resp)
	return resp.Header.Get("X-Goog-Generation"), nil
}

// signedHeaders are those of a condition in the XML interface.
func signedHeaders(c storage.Condition) http.Header {
	h := http.Header{}
	if generation := match(c).Get("ifGenerationMatch"); generation != "" {
		h.Set("X-Goog-If-Generation-Match", generation)
	}
	return h
}

// DeleteMany implements object.Bucket: Limits say that there is no such request.
func (b *Bucket) DeleteMany(context.Context, []string) error { return errors.ErrUnsupported }

// AbortOld implements object.Bucket. A composition leaves nothing that has no key.
func (b *Bucket) AbortOld(context.Context, string, time.Time) error { return nil }

// Now implements object.Bucket.
func (b *Bucket) Now() time.Time { return b.clock.Now() }

// Touch implements object.Bucket: a copy of the object onto itself.
func (b *Bucket) Touch(ctx context.Context, key, version string) error {
	q := match(storage.IfVersion(version))
	q.Set("ifSourceGenerationMatch", version)
	q.Set("fields", "done")
	address := b.object(key, q, "rewriteTo/b", url.PathEscape(b.o.Bucket), "o", url.PathEscape(key))
	resp, err := b.send(ctx, http.MethodPost, address, http.Header{"Content-Type": {"application/json"}}, nil, 0, false)
	if err != nil {
		return err
	}
	var rewritten struct{ Done bool }
	if _, err := answer(ctx, resp, &rewritten); err != nil {
		return err
	}
	if !rewritten.Done { // Google asks for more requests where it moves very large objects
		return errors.ErrUnsupported
	}
	return nil
}

// Delete implements object.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string, c storage.Condition) error {
	var header http.Header
	address, signed := b.object(key, match(c)), b.o.Signer != nil
	if signed {
		var err error
		header = signedHeaders(c)
		if address, err = b.sign(ctx, http.MethodDelete, key, life, header, nil); err != nil {
			return err
		}
	}
	resp, err := b.send(ctx, http.MethodDelete, address, header, nil, 0, signed)
	if errors.Is(err, storage.ErrNotExist) && c == (storage.Condition{}) {
		return nil
	}
	if err != nil {
		return err
	}
	rest.Drop(resp)
	return nil
}

// List implements object.Bucket. Google continues after a token, so Page.Next holds it
// with the key after which the listing began.
func (b *Bucket) List(ctx context.Context, prefix string, o object.ListOptions) (object.Page, error) {
	after, token, _ := strings.Cut(o.After, "\x00")
	q := url.Values{"prefix": {prefix}, "fields": {"nextPageToken,prefixes,items(name,size,generation,updated,md5Hash)"}}
	if after > prefix {
		q.Set("startOffset", successor(after, o.Delimited))
	}
	if token != "" {
		q.Set("pageToken", token)
	}
	if o.Delimited {
		q.Set("delimiter", "/")
	}
	if o.Max > 0 {
		q.Set("maxResults", strconv.Itoa(o.Max))
	}
	resp, err := b.send(ctx, http.MethodGet, b.address(q, "storage/v1/b", url.PathEscape(b.o.Bucket), "o"), nil, nil, 0, false)
	if err != nil {
		return object.Page{}, err
	}
	var l struct {
		Items         []resource
		Prefixes      []string
		NextPageToken string
	}
	now, err := answer(ctx, resp, &l)
	if err != nil {
		return object.Page{}, err
	}
	page := object.Page{More: l.NextPageToken != "", Now: now}
	if page.More {
		page.Next = max(after, prefix) + "\x00" + l.NextPageToken
	}
	for i := range l.Items {
		if l.Items[i].Name > after {
			page.Entries = append(page.Entries, l.Items[i].info())
		}
	}
	for _, p := range l.Prefixes {
		if p > after {
			page.Entries = append(page.Entries, object.Info{Key: p, Prefix: true})
		}
	}
	slices.SortFunc(page.Entries, func(x, y object.Info) int { return cmp.Compare(x.Key, y.Key) })
	return page, nil
}

// successor returns the key at which a listing begins that leaves after out: "-" is the least byte
// that a key has, and "0" the one behind "/".
func successor(after string, delimited bool) string {
	if prefix, ok := strings.CutSuffix(after, "/"); ok && delimited {
		return prefix + "0"
	}
	return after + "-"
}
