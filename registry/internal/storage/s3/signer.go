package s3

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// signer signs by the store's clock, from when it was decided to send a request. The client can't presign
// copies and deletions of many objects, so that every change that must expire is presigned here.
type signer struct {
	*v4.Signer
	clock *rest.Clock
}

func newSigner(clock *rest.Clock) *signer {
	return &signer{v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping, o.DisableHeaderHoisting = true, true }), clock}
}

const unsigned = "UNSIGNED-PAYLOAD"

// SignHTTP implements s3.HTTPSignerV4.
func (s *signer) SignHTTP(ctx context.Context, c aws.Credentials, r *http.Request, hash, service, region string, _ time.Time, options ...func(*v4.SignerOptions)) error {
	if !rest.Expires(ctx) {
		// A composition takes many requests, each signed when it is sent.
		return s.Signer.SignHTTP(ctx, c, r, hash, service, region, s.clock.Now(), options...)
	}
	q := r.URL.Query()
	q.Set("X-Amz-Expires", strconv.Itoa(int(expiry.Seconds())))
	r.URL.RawQuery = q.Encode()
	r.Header.Del("X-Amz-Content-Sha256")
	signed, _, err := s.Signer.PresignHTTP(ctx, c, r, unsigned, service, region, object.Sent(ctx).Add(s.clock.Offset()), options...)
	if err != nil {
		return err
	}
	r.URL, err = url.Parse(signed)
	return err
}

// PresignHTTP implements s3.HTTPPresignerV4.
func (s *signer) PresignHTTP(ctx context.Context, c aws.Credentials, r *http.Request, hash, service, region string, _ time.Time, options ...func(*v4.SignerOptions)) (string, http.Header, error) {
	return s.Signer.PresignHTTP(ctx, c, r, hash, service, region, s.clock.Now(), options...)
}
