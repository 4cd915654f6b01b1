// Package s3 sends requests to a bucket of Amazon S3 or of anything that speaks its
// protocol. The SDK finds credentials and signs; the requests are this package's own,
// for they cost a fifth of the SDK's and do nothing that other people's S3 does not know:
// no checksum trailers, no retries of their own.
package s3

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// Config says where the bucket is and how it is spoken to.
type Config struct {
	AccessKey, SecretKey, SessionToken string // "" = the usual chain: environment, profile, IRSA, instance role
	Region                             string
	Endpoint                           string // host, or URL; "" = Amazon
	Bucket                             string
	Root                               string // prefix of all keys, without slashes at its ends
	PathStyle                          bool   // bucket in the path instead of the host name
	Insecure                           bool   // http, where the endpoint does not say
	SkipVerify                         bool   // accept any certificate
	CAFile                             string // of authorities that are trusted beside the system's
	DualStack, Accelerate, FIPS        bool   // of Amazon's endpoints
	Encrypt                            bool   // ask the server to encrypt, with KeyID if it is set
	KeyID                              string
	StorageClass                       string // "" or "NONE" = do not say
	ACL                                string // "" = do not say
	UserAgent                          string
	// PublicEndpoint is where clients find the bucket: scheme and host; "" = like we.
	PublicEndpoint string
}

// Bucket is an object.Bucket.
type Bucket struct {
	c           Config
	base        *url.URL // of the bucket, no slash at its end
	public      *url.URL
	http        *http.Client
	credentials aws.CredentialsProvider
	signer      *v4.Signer
	clock       rest.Clock
	noTouch     atomic.Bool // the store leaves what is copied onto itself as old as it was
}

var (
	_ object.Bucket       = (*Bucket)(nil)
	_ object.BatchDeleter = (*Bucket)(nil)
	_ object.Signer       = (*Bucket)(nil)
	_ object.Multipart    = (*Bucket)(nil)
)

// expiry is how long a change that is signed in its URL may be under way, and lateness what the
// clocks and the store's own work add to that.
const (
	expiry   = 15 * time.Second
	lateness = 10 * time.Second
)

// Open returns the bucket after it has looked at it once. The error is a sentence that names
// the setting to look at.
func Open(ctx context.Context, c Config) (*Bucket, error) {
	b, err := newBucket(ctx, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	if err := b.look(ctx); err != nil {
		return nil, b.explain(err)
	}
	return b, nil
}

// Create makes the bucket unless it is there.
func Create(ctx context.Context, c Config) error {
	b, err := newBucket(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // never fails
	resp, err := b.send(ctx, &request{method: http.MethodPut})
	var answer *answerError
	if errors.As(err, &answer) && (answer.Code == "BucketAlreadyOwnedByYou" || answer.Code == "BucketAlreadyExists") {
		return nil
	}
	if err != nil {
		return err
	}
	rest.Drop(resp)
	return nil
}

// openTime bounds all that Open does.
const openTime = 20 * time.Second

func newBucket(ctx context.Context, c Config) (*Bucket, error) {
	b := &Bucket{c: c, http: rest.NewClient(c.SkipVerify), signer: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })}
	setting, file := "storage.s3.cafile", c.CAFile
	if file == "" {
		setting, file = "AWS_CA_BUNDLE", os.Getenv("AWS_CA_BUNDLE")
	}
	if err := b.trust(setting, file); err != nil {
		return nil, err
	}
	var err error
	if b.base, err = c.url(c.Endpoint); err != nil {
		return nil, err
	}
	b.public = b.base
	if c.PublicEndpoint != "" {
		if b.public, err = c.url(c.PublicEndpoint); err != nil {
			return nil, err
		}
	}
	if c.AccessKey != "" {
		b.credentials = aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, c.SessionToken))
		return b, nil
	}
	loaded, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(c.Region))
	if err != nil {
		return nil, fmt.Errorf("storage.s3: cannot read the AWS configuration of this machine: %w", err)
	}
	b.credentials = loaded.Credentials
	return b, nil
}

// trust adds the authorities in a file, which setting names, to the system's.
func (b *Bucket) trust(setting, file string) error {
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s: %s has no certificate", setting, file)
	}
	t, ok := b.http.Transport.(*http.Transport)
	if !ok {
		return errors.New(setting + ": no transport to set it on")
	}
	t.TLSClientConfig.RootCAs = pool
	return nil
}

// url is that of the bucket at an endpoint, "" for Amazon's.
func (c *Config) url(endpoint string) (*url.URL, error) {
	if endpoint == "" {
		endpoint = c.amazon()
	}
	if !strings.Contains(endpoint, "://") {
		scheme := "https://"
		if c.Insecure {
			scheme = "http://"
		}
		endpoint = scheme + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("storage.s3.regionendpoint: %q is no URL of a server", endpoint)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	if c.PathStyle {
		u.Path += "/" + c.Bucket
	} else {
		u.Host = c.Bucket + "." + u.Host
	}
	return u, nil
}

// amazon is the endpoint of a region.
func (c *Config) amazon() string {
	region := cmp.Or(c.Region, "us-east-1")
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain += ".cn"
	}
	switch {
	case c.Accelerate && c.DualStack:
		return "s3-accelerate.dualstack." + domain
	case c.Accelerate:
		return "s3-accelerate." + domain
	}
	service := "s3"
	if c.FIPS {
		service = "s3-fips"
	}
	if c.DualStack {
		service += ".dualstack"
	}
	return service + "." + region + "." + domain
}

// Limits implements object.Bucket. Conditions are what Amazon has; the probe says what of
// that is so here.
func (b *Bucket) Limits() object.Limits {
	return object.Limits{
		MinPart: 5 << 20, MaxPut: 5 << 30, MaxParts: 10_000, MaxLate: expiry + lateness,
		ConditionalPut: true, ConditionalDelete: true,
	}
}

// Close implements object.Bucket.
func (b *Bucket) Close() error {
	b.http.CloseIdleConnections()
	return nil
}

// look sends a request that shows what is wrong. A bucket that is missing cannot be told from
// a missing key but by a listing.
func (b *Bucket) look(ctx context.Context) error {
	const most = 4
	for try := 1; ; try++ {
		_, err := b.List(ctx, "", object.ListOptions{Max: 1})
		if !errors.Is(err, storage.ErrUnavailable) || ctx.Err() != nil || try == most {
			return err
		}
		select {
		case <-time.After(time.Duration(try) * 250 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
