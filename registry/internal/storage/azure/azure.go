// Package azure is a container of Azure Blob Storage as an object.Bucket. It sends its
// own requests; tokens of Microsoft Entra ID come from Microsoft's library.
package azure

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// Options is which container and how it is reached.
type Options struct {
	Account    string
	Container  string
	ServiceURL string // of the account's blobs, without a slash at its end
	SkipVerify bool   // accept any certificate
	Key        string // of the account, in base64; "" where there is a Token
	Token      azcore.TokenCredential
	UserAgent  string
}

// Bucket is a container. Names of blobs are the keys, or, in a container that
// distribution 2 has written, the keys behind a slash.
type Bucket struct {
	o          Options
	base       *url.URL // of the container
	client     *http.Client
	credential credential
	clock      rest.Clock
	slash      string        // "/" in a container of distribution 2
	expires    bool          // grants are possible, so that requests can expire
	noStart    atomic.Bool   // the store does not know startFrom
	noCopy     atomic.Bool   // the store cannot read the source of a write by itself
	life       time.Duration // of a request that expires
	batches    rest.Batches
}

var (
	_ object.Bucket       = (*Bucket)(nil)
	_ object.BatchDeleter = (*Bucket)(nil)
	_ object.Signer       = (*Bucket)(nil)
)

// Versions of the REST interface.
const (
	apiVersion   = "2021-12-02"
	startVersion = "2026-02-06" // the first with startFrom
)

const (
	defaultLife  = 30 * time.Second
	clockError   = 5 * time.Second  // of what is known of the store's clock, which has whole seconds
	withoutGrant = 15 * time.Minute // what Azure allows a signed request to be late
)

// New returns a bucket. It sends nothing; see Start.
func New(o Options) (*Bucket, error) {
	base, err := url.Parse(strings.TrimRight(o.ServiceURL, "/") + "/" + o.Container)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("serviceurl: %q is not a URL such as https://account.blob.core.windows.net", o.ServiceURL)
	}
	b := &Bucket{o: o, base: base, client: rest.NewClient(o.SkipVerify), life: defaultLife, expires: true}
	b.batches.Part, b.batches.Send, b.batches.Delete = b.deletion, b.sendBatch, b.Delete
	switch {
	case o.Token != nil && base.Scheme != "https":
		return nil, errors.New("serviceurl: must begin with https:// where credentials.type is not shared_key, since a token is sent")
	case o.Token != nil:
		b.credential = &token{source: o.Token}
	default:
		if b.credential, err = newSharedKey(o.Account, o.Key); err != nil {
			return nil, fmt.Errorf("accountkey: %w", err)
		}
	}
	return b, nil
}

// Limits implements object.Bucket.
func (b *Bucket) Limits() object.Limits {
	late := b.life + clockError
	if !b.expires {
		late = withoutGrant
	}
	return object.Limits{MinPart: object.MinPart, MaxPut: 256 << 20, MaxParts: 50_000, MaxLate: late, ConditionalPut: true, ConditionalDelete: true}
}

// Close implements object.Bucket.
func (b *Bucket) Close() error {
	b.client.CloseIdleConnections()
	return nil
}

// canonical names a blob in signatures.
func (b *Bucket) canonical(blob string) string {
	return "/blob/" + b.o.Account + "/" + b.o.Container + "/" + blob
}

// blobURL is the address of a blob.
func (b *Bucket) blobURL(key string) *url.URL {
	u := *b.base
	u.Path += "/" + b.slash + key
	return &u
}

// request is what send sends.
type request struct {
	method string
	url    *url.URL
	query  url.Values
	header http.Header // names in canonical form
	body   object.Body
	expire string // permissions by which it is sent, so that it expires; "" = it need not
	// inBatch says that it is a part of another request, which has what all parts share.
	inBatch bool
}

// send sends a request once and returns an answer of status 2xx, whose body the caller
// closes.
func (b *Bucket) send(ctx context.Context, r request) (*http.Response, error) {
	req, granted, err := b.build(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, rest.Failed(ctx, err)
	}
	b.clock.Observe(resp)
	if resp.StatusCode/100 != 2 {
		return resp, b.refusal(ctx, resp, granted)
	}
	return resp, nil
}

// build makes a request that is authorized, by a grant in its URL or by a header.
func (b *Bucket) build(ctx context.Context, r request) (req *http.Request, granted bool, err error) {
	u := *r.url
	query := r.query
	granted = r.expire != "" && b.expires
	if granted {
		q, err := b.credential.grant(ctx, b, grant{
			blob: b.blobName(r.url), permissions: r.expire, until: b.clock.Sent(ctx).Add(b.life),
		})
		if err != nil {
			return nil, false, err
		}
		for name, values := range query {
			q[name] = values
		}
		query = q
	}
	u.RawQuery = query.Encode()
	req, err = http.NewRequestWithContext(ctx, r.method, u.String(), rest.Content(r.body))
	if err != nil {
		return nil, false, err
	}
	req.ContentLength = r.body.Size
	if r.header != nil {
		req.Header = r.header
	}
	set(req.Header, "X-Ms-Date", b.clock.Now().UTC().Format(http.TimeFormat))
	if req.Header.Get("X-Ms-Version") == "" && !r.inBatch {
		set(req.Header, "X-Ms-Version", apiVersion)
	}
	if b.o.UserAgent != "" && !r.inBatch {
		set(req.Header, "User-Agent", b.o.UserAgent)
	}
	if !granted {
		if err := b.credential.authorize(ctx, req); err != nil {
			return nil, false, err
		}
	}
	return req, granted, nil
}

func set(h http.Header, name, value string) { h[http.CanonicalHeaderKey(name)] = []string{value} }

// blobName is the name behind an address that blobURL has made.
func (b *Bucket) blobName(u *url.URL) string { return u.Path[len(b.base.Path)+1:] }

// Failure is an answer that says no.
type Failure struct {
	Status  int
	Code    string // Azure's word for it
	Message string
}

func (f *Failure) Error() string {
	text := "Azure answers " + strconv.Itoa(f.Status)
	if f.Code != "" {
		text += " " + f.Code
	}
	if line, _, _ := strings.Cut(f.Message, "\n"); line != "" {
		text += ": " + line
	}
	return text
}

// refusal reads an answer that is no success and closes it.
func (b *Bucket) refusal(ctx context.Context, resp *http.Response, granted bool) error {
	f := &Failure{Status: resp.StatusCode, Code: resp.Header.Get("X-Ms-Error-Code")}
	defer resp.Body.Close()
	content, _ := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	var told struct{ Code, Message string }
	if xml.Unmarshal(content, &told) == nil {
		f.Message = told.Message
		if f.Code == "" {
			f.Code = told.Code
		}
	}
	if t := rest.Status(resp, f); t != nil {
		return t
	}
	switch {
	case f.Status == http.StatusNotFound && f.Code != "ContainerNotFound" && f.Code != "ResourceNotFound":
		return fmt.Errorf("%w: %w", storage.ErrNotExist, f)
	case f.Status == http.StatusNotFound:
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, f)
	case f.Status == http.StatusPreconditionFailed || f.Code == "BlobAlreadyExists":
		return fmt.Errorf("%w: %w", storage.ErrConflict, f)
	case f.Code == "InvalidBlockList" || f.Code == "BlobBeingRehydrated" || f.Code == "ContainerBeingDeleted":
		return &object.Trouble{Err: f, Effect: object.Refused}
	case f.Status == http.StatusForbidden && granted && f.Code == "AuthenticationFailed": // it has expired on its way
		return &object.Trouble{Err: f, Effect: object.Refused}
	case f.Status == http.StatusForbidden || f.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", storage.ErrDenied, f)
	}
	return f
}

// failureCode is Azure's word inside err, or "".
func failureCode(err error) string {
	var f *Failure
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}

// conditions adds what must be the case to a request.
func conditions(h http.Header, c storage.Condition) {
	if c.Absent() {
		set(h, "If-None-Match", "*")
	}
	if c.Version() != "" {
		set(h, "If-Match", `"`+c.Version()+`"`)
	}
}

// version is an ETag without its quotes, which listings leave out.
func version(etag string) string { return strings.Trim(etag, `"`) }

// describe reads the headers of an answer about a blob.
func (b *Bucket) describe(key string, resp *http.Response) object.Info {
	i := object.Info{Key: key, Size: resp.ContentLength, Version: version(resp.Header.Get("ETag")), Writer: resp.Header.Get("X-Ms-Meta-Writer")}
	i.Modified, _ = http.ParseTime(resp.Header.Get("Last-Modified"))
	i.Now, _ = http.ParseTime(resp.Header.Get("Date"))
	if _, total, ok := strings.Cut(resp.Header.Get("Content-Range"), "/"); ok {
		i.Size, _ = strconv.ParseInt(total, 10, 64)
	}
	return i
}

// Head implements object.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (object.Info, error) {
	resp, err := b.send(ctx, request{method: http.MethodHead, url: b.blobURL(key)})
	if err != nil {
		return object.Info{}, err
	}
	resp.Body.Close()
	return b.describe(key, resp), nil
}

// Get implements object.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, object.Info, error) {
	r := request{method: http.MethodGet, url: b.blobURL(key), header: http.Header{}}
	switch {
	case length == 0:
		info, err := b.Head(ctx, key)
		return http.NoBody, info, err
	case length > 0:
		set(r.header, "X-Ms-Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		set(r.header, "X-Ms-Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := b.send(ctx, r)
	var f *Failure
	if errors.As(err, &f) && f.Status == http.StatusRequestedRangeNotSatisfiable {
		info, err := b.Head(ctx, key)
		return http.NoBody, info, err
	}
	if err != nil {
		return nil, object.Info{}, err
	}
	return resp.Body, b.describe(key, resp), nil
}

// Put implements object.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body object.Body, o object.PutOptions) (string, error) {
	r := request{method: http.MethodPut, url: b.blobURL(key), header: writeHeader(o), body: body}
	set(r.header, "X-Ms-Blob-Type", "BlockBlob")
	if o.Expire {
		r.expire = "w"
	}
	return b.write(ctx, r)
}

func writeHeader(o object.PutOptions) http.Header {
	h := http.Header{}
	conditions(h, o.If)
	if o.Writer != "" {
		set(h, "X-Ms-Meta-Writer", o.Writer)
	}
	return h
}

func (b *Bucket) write(ctx context.Context, r request) (string, error) {
	resp, err := b.send(ctx, r)
	if err != nil {
		return "", err
	}
	rest.Drop(resp)
	return version(resp.Header.Get("ETag")), nil
}

// Touch implements object.Bucket. Whatever is done to the metadata makes a blob new.
func (b *Bucket) Touch(ctx context.Context, key string) error {
	_, err := b.write(ctx, request{method: http.MethodPut, url: b.blobURL(key), query: url.Values{"comp": {"metadata"}}, expire: "w"})
	return err
}

// Delete implements object.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string, c storage.Condition) error {
	h := http.Header{}
	conditions(h, c)
	resp, err := b.send(ctx, request{method: http.MethodDelete, url: b.blobURL(key), header: h, expire: "d"})
	if errors.Is(err, storage.ErrNotExist) && c == (storage.Condition{}) {
		return nil
	}
	if err != nil {
		return err
	}
	rest.Drop(resp)
	return nil
}

// SignedURL implements object.Signer.
func (b *Bucket) SignedURL(ctx context.Context, _, key string, expires time.Duration, o object.URLOptions) (string, error) {
	u := b.blobURL(key)
	q, err := b.credential.grant(ctx, b, grant{blob: b.blobName(u), permissions: "r", until: b.clock.Now().Add(expires), contentType: o.ContentType})
	if err != nil {
		return "", err
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// delegationKey asks for a key by which the owner of the token signs grants.
func (b *Bucket) delegationKey(ctx context.Context, until time.Time) (*delegationKey, error) {
	service := *b.base
	service.Path = strings.TrimSuffix(service.Path, b.o.Container)
	now := b.clock.Now()
	if week := now.Add(7*24*time.Hour - time.Minute); until.After(week) {
		until = week
	}
	text := fmt.Sprintf("<KeyInfo><Start>%s</Start><Expiry>%s</Expiry></KeyInfo>", now.Add(-time.Minute).UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
	resp, err := b.send(ctx, request{
		method: http.MethodPost, url: &service, query: url.Values{"restype": {"service"}, "comp": {"userdelegationkey"}},
		body: object.Body{Content: strings.NewReader(text), Size: int64(len(text))},
	})
	if err != nil {
		return nil, err
	}
	content, err := rest.Answer(ctx, resp)
	if err != nil {
		return nil, err
	}
	k := &delegationKey{until: until}
	if err := xml.Unmarshal(content, k); err != nil {
		return nil, fmt.Errorf("the delegation key cannot be read: %w", err)
	}
	if k.signer.key, err = base64.StdEncoding.DecodeString(k.Value); err != nil {
		return nil, errors.New("the delegation key is not in base64")
	}
	return k, nil
}
