// Package s3 sends requests to a bucket of Amazon S3, or of another store that speaks its
// protocol, through Amazon's client. Retries are package object's.
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
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

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
	CAFile                             string // certificate authorities that are trusted in addition to the system's
	DualStack, Accelerate, FIPS        bool   // of Amazon's endpoints
	Encrypt                            bool   // ask the server to encrypt, with KeyID if it is set
	KeyID                              string
	StorageClass                       string // "" or "NONE" = do not say
	ACL                                string // "" = do not say
	UserAgent                          string
	// PublicEndpoint is the scheme and host at which clients find the bucket; "" = those of this process.
	PublicEndpoint string
}

// Bucket is an object.Bucket.
type Bucket struct {
	c           Config
	http        *http.Client
	endpoint    *string // nil = Amazon's
	api         *s3.Client
	urls        *s3.PresignClient // for clients
	credentials aws.CredentialsProvider
	clock       rest.Clock
}

var _ object.Bucket = (*Bucket)(nil)

// expiry is the longest time that a change that is signed in its URL may be in progress, and lateness what the
// clocks and the store's own work add to that.
const (
	expiry   = 15 * time.Second
	lateness = 10 * time.Second
)

// Open returns the bucket after it has probed it once. The error is a sentence that names
// the setting to check.
func Open(ctx context.Context, c Config) (*Bucket, error) {
	b, err := newBucket(ctx, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	if err := b.probe(ctx); err != nil {
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
	_, err = b.api.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &b.c.Bucket})
	var owned *types.BucketAlreadyOwnedByYou
	var there *types.BucketAlreadyExists
	if errors.As(err, &owned) || errors.As(err, &there) {
		return nil
	}
	return b.failed(ctx, err)
}

// openTime bounds all that Open does.
const openTime = 20 * time.Second

func newBucket(ctx context.Context, c Config) (*Bucket, error) {
	b := &Bucket{c: c, http: rest.NewClient(c.SkipVerify)}
	setting, file := "storage.s3.cafile", c.CAFile
	if file == "" {
		setting, file = "AWS_CA_BUNDLE", os.Getenv("AWS_CA_BUNDLE")
	}
	if err := b.trust(setting, file); err != nil {
		return nil, err
	}
	endpoint, err := c.url(c.Endpoint)
	if err != nil {
		return nil, err
	}
	public, err := c.url(cmp.Or(c.PublicEndpoint, c.Endpoint))
	if err != nil {
		return nil, err
	}
	if c.AccessKey != "" {
		b.credentials = aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, c.SessionToken))
	} else {
		loaded, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(c.Region))
		if err != nil {
			return nil, fmt.Errorf("storage.s3: cannot read the AWS configuration of this machine: %w", err)
		}
		b.credentials = loaded.Credentials
	}
	b.endpoint, b.api = endpoint, s3.New(b.options(endpoint))
	b.urls = s3.NewPresignClient(s3.New(b.options(public)), func(o *s3.PresignOptions) { o.Presigner = newSigner(&b.clock) })
	return b, nil
}

// options has the client send each request once, and no checksums that other people's S3 doesn't know.
func (b *Bucket) options(endpoint *string) s3.Options {
	o := s3.Options{
		Region: cmp.Or(b.c.Region, "us-east-1"), BaseEndpoint: endpoint, UsePathStyle: b.c.PathStyle, UseAccelerate: b.c.Accelerate,
		Credentials: b.credentials, HTTPClient: b, HTTPSignerV4: newSigner(&b.clock), Retryer: aws.NopRetryer{},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		DisableS3ExpressSessionAuth: aws.Bool(true), DisableLogOutputChecksumValidationSkipped: true, DisableClockSkewCorrection: true,
		ContinueHeaderThresholdBytes: -1,
	}
	if b.c.DualStack {
		o.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateEnabled
	}
	if b.c.FIPS {
		o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled
	}
	return o
}

// Do implements s3.HTTPClient.
func (b *Bucket) Do(req *http.Request) (*http.Response, error) {
	if b.c.UserAgent != "" {
		req.Header.Set("User-Agent", b.c.UserAgent)
	}
	resp, err := b.http.Do(req)
	if err == nil {
		b.clock.Observe(resp)
	}
	return resp, err
}

// Now implements object.Bucket.
func (b *Bucket) Now() time.Time { return b.clock.Now() }

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

// url is an endpoint with its scheme, nil for Amazon's.
func (c *Config) url(endpoint string) (*string, error) {
	if endpoint == "" {
		return nil, nil //nolint:nilnil // the SDK knows it
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
		return nil, fmt.Errorf("storage.s3.regionendpoint: %q is not the URL of a server", endpoint)
	}
	return &endpoint, nil
}

// Limits implements object.Bucket. Conditions are what Amazon has; the probe describes what of
// that is so here.
func (b *Bucket) Limits() object.Limits {
	return object.Limits{
		MinPart: 5 << 20, MaxPut: 5 << 30, MaxParts: 10_000, MaxDelete: 1000, MaxLate: expiry + lateness,
		ConditionalPut: true, ConditionalDelete: true, ComposedEarly: true,
		GetRight: "s3:GetObject", PutRight: "s3:PutObject", DeleteRight: "s3:DeleteObject",
	}
}

// Close implements object.Bucket.
func (b *Bucket) Close() error {
	b.http.CloseIdleConnections()
	return nil
}

// probe sends a request that shows what is wrong. A bucket that is missing cannot be distinguished from
// a missing key but by a listing.
func (b *Bucket) probe(ctx context.Context) error {
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
