// Package azure is a container of Azure Blob Storage as an object.Bucket, through
// Microsoft's client. Retries are package object's.
package azure

import (
	"bytes"
	"context"
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
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

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
// distribution 2 has written, with a slash before the keys.
type Bucket struct {
	o       Options
	base    *url.URL // of the container
	http    *http.Client
	api     *container.Client
	clock   rest.Clock
	grants  grants
	slash   string      // "/" in a container of distribution 2
	expires bool        // requests carry grants, and so can expire
	started atomic.Bool // the key was right once, so that a refusal means a late request
	noStart atomic.Bool // the store does not know startFrom
	noCopy  atomic.Bool // the store cannot read the source of a write by itself
}

var _ object.Bucket = (*Bucket)(nil)

const (
	life         = 15 * time.Second // of a change that expires
	lateness     = 10 * time.Second // what clocks and the store's own work add to that
	longLife     = 15 * time.Minute // of any other request
	withoutGrant = 15 * time.Minute // what Azure allows a request with a token to be late
)

// New returns a bucket. It sends nothing; see Start.
func New(o Options) (*Bucket, error) {
	base, err := url.Parse(strings.TrimRight(o.ServiceURL, "/") + "/" + o.Container)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("serviceurl: %q is not a URL such as https://account.blob.core.windows.net", o.ServiceURL)
	}
	if o.Token != nil && base.Scheme != "https" {
		return nil, errors.New("serviceurl: must begin with https:// where credentials.type is not shared_key, since a token is sent")
	}
	b := &Bucket{o: o, base: base, http: rest.NewClient(o.SkipVerify), expires: true}
	if b.grants, err = newGrants(b); err != nil {
		return nil, err
	}
	options := b.options()
	options.PerCallPolicies = []policy.Policy{authorize{b}}
	b.api, err = container.NewClientWithNoCredential(base.String(), &container.ClientOptions{ClientOptions: options})
	return b, err
}

// options has the client send each request once.
func (b *Bucket) options() policy.ClientOptions {
	return policy.ClientOptions{Transport: transport{b}, Retry: policy.RetryOptions{MaxRetries: -1}, Telemetry: policy.TelemetryOptions{Disabled: true}}
}

type transport struct{ b *Bucket }

// Do implements policy.Transporter.
func (t transport) Do(req *http.Request) (*http.Response, error) {
	if t.b.o.UserAgent != "" {
		req.Header.Set("User-Agent", t.b.o.UserAgent)
	}
	resp, err := t.b.http.Do(req)
	if err == nil {
		t.b.clock.Observe(resp)
	}
	return resp, err
}

// Limits implements object.Bucket.
func (b *Bucket) Limits() object.Limits {
	late := life + lateness
	if !b.expires {
		late = withoutGrant
	}
	return object.Limits{
		MinPart: object.MinPart, MaxPut: 256 << 20, MaxParts: 50_000, MaxLate: late, ConditionalPut: true, ConditionalDelete: true, Versioned: true,
		GetRight: "blobs/read", PutRight: "blobs/write", DeleteRight: "blobs/delete (role Storage Blob Data Contributor)",
	}
}

// Now implements object.Bucket.
func (b *Bucket) Now() time.Time { return b.clock.Now() }

// Close implements object.Bucket.
func (b *Bucket) Close() error {
	b.http.CloseIdleConnections()
	return nil
}

// blob is the client of a blob.
func (b *Bucket) blob(key string) *blockblob.Client { return b.api.NewBlockBlobClient(b.slash + key) }

// Head implements object.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (object.Info, error) {
	out, err := b.blob(key).GetProperties(ctx, nil)
	if err != nil {
		return object.Info{}, b.failed(ctx, err)
	}
	return b.info(key, out.ContentLength, out.LastModified, out.ETag, out.Metadata), nil
}

func (b *Bucket) info(key string, size *int64, modified *time.Time, etag *azcore.ETag, metadata map[string]*string) object.Info {
	i := object.Info{Key: key, Version: version(etag), Now: b.clock.Now()}
	if size != nil {
		i.Size = *size
	}
	if modified != nil {
		i.Modified = modified.UTC()
	}
	for name, value := range metadata {
		if strings.EqualFold(name, "writer") && value != nil {
			i.Writer = *value
		}
	}
	return i
}

// Get implements object.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, object.Info, error) {
	if length == 0 {
		info, err := b.Head(ctx, key)
		return http.NoBody, info, err
	}
	out, err := b.blob(key).DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: offset, Count: max(length, 0)}})
	if err != nil {
		err = b.failed(ctx, err)
		if f, ok := errors.AsType[*Failure](err); ok && f.Status == http.StatusRequestedRangeNotSatisfiable {
			info, err := b.Head(ctx, key)
			return http.NoBody, info, err
		}
		return nil, object.Info{}, err
	}
	info := b.info(key, out.ContentLength, out.LastModified, out.ETag, out.Metadata)
	if out.ContentRange != nil {
		_, total, _ := strings.Cut(*out.ContentRange, "/")
		info.Size, _ = strconv.ParseInt(total, 10, 64)
	}
	return out.Body, info, nil
}

// Put implements object.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body object.Body, o object.PutOptions) (string, error) {
	if o.Expire {
		ctx = rest.Expiring(ctx)
	}
	out, err := b.blob(key).Upload(ctx, content(body), &blockblob.UploadOptions{Metadata: metadata(o), AccessConditions: conditions(o.If)})
	if err != nil {
		return "", b.failed(ctx, err)
	}
	return version(out.ETag), nil
}

// Touch implements object.Bucket. Whatever is done to the metadata makes a blob new.
func (b *Bucket) Touch(ctx context.Context, key, version string) error {
	_, err := b.blob(key).SetMetadata(rest.Expiring(ctx), nil, &blob.SetMetadataOptions{AccessConditions: conditions(storage.IfVersion(version))})
	return b.failed(ctx, err)
}

// Delete implements object.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string, c storage.Condition) error {
	_, err := b.blob(key).Delete(rest.Expiring(ctx), &blob.DeleteOptions{AccessConditions: conditions(c)})
	err = b.failed(ctx, err)
	if errors.Is(err, storage.ErrNotExist) && c == (storage.Condition{}) {
		return nil
	}
	return err
}

// DeleteMany implements object.Bucket: Limits say that there is no such request.
func (b *Bucket) DeleteMany(context.Context, []string) error { return errors.ErrUnsupported }

// AbortOld implements object.Bucket. Azure forgets blocks of nothing by itself.
func (b *Bucket) AbortOld(context.Context, string, time.Time) error { return nil }

// Redirects implements object.Bucket.
func (b *Bucket) Redirects() bool { return b.expires }

// SignedURL implements object.Bucket.
func (b *Bucket) SignedURL(ctx context.Context, _, key string, expires time.Duration, o object.URLOptions) (string, error) {
	if !b.expires {
		return "", errors.New("the identity may not sign URLs")
	}
	query, err := b.grants.sign(ctx, sas.BlobSignatureValues{
		BlobName: b.slash + key, ContentType: o.ContentType, Permissions: "r", ExpiryTime: b.clock.Now().Add(expires),
	})
	if err != nil {
		return "", err
	}
	return b.blob(key).URL() + "?" + query, nil
}

func content(b object.Body) io.ReadSeekCloser {
	if b.Size == 0 {
		return streaming.NopCloser(bytes.NewReader(nil))
	}
	return streaming.NopCloser(io.NewSectionReader(b.Content, 0, b.Size))
}

func metadata(o object.PutOptions) map[string]*string {
	if o.Writer == "" {
		return nil
	}
	return map[string]*string{"writer": &o.Writer}
}

func conditions(c storage.Condition) *blob.AccessConditions {
	m := &blob.ModifiedAccessConditions{}
	if c.Absent() {
		m.IfNoneMatch = to.Ptr(azcore.ETagAny)
	}
	if c.Version() != "" {
		m.IfMatch = to.Ptr(azcore.ETag(`"` + c.Version() + `"`))
	}
	return &blob.AccessConditions{ModifiedAccessConditions: m}
}

// version is an ETag without its quotes, which listings leave out.
func version(etag *azcore.ETag) string {
	if etag == nil {
		return ""
	}
	return strings.Trim(string(*etag), `"`)
}
