package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// failure is S3's answer to a failed request.
type failure struct {
	Code, Message, Region string
}

var errNoCredentials = errors.New("there are no credentials")

// answerError is an answer that is no success.
type answerError struct {
	failure
	status int
}

func (e *answerError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("the object store answers %d %s", e.status, http.StatusText(e.status))
	}
	return fmt.Sprintf("the object store answers %d %s: %s", e.status, e.Code, e.Message)
}

// failed is the meaning of an error of the client, nil for nil.
func (b *Bucket) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok || answer.HTTPResponse() == nil || answer.HTTPStatusCode() == 0 {
		if _, noCredentials := b.credentials.Retrieve(ctx); noCredentials != nil && ctx.Err() == nil {
			return &object.Trouble{Err: fmt.Errorf("%w: %w", errNoCredentials, noCredentials), Effect: object.Refused}
		}
		return rest.Failed(ctx, err)
	}
	resp := answer.HTTPResponse()
	var f failure
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		f.Code, f.Message = api.ErrorCode(), api.ErrorMessage()
	} else if resp.StatusCode < 300 { // the answer was cut off or is not from S3
		return &object.Trouble{Err: fmt.Errorf("the store's answer cannot be read: %w", errors.Unwrap(answer))}
	}
	head := resp.Request != nil && resp.Request.Method == http.MethodHead
	if head {
		f.Code = "" // the client makes one of the status
		if creds, err := b.credentials.Retrieve(ctx); resp.StatusCode == http.StatusBadRequest && err == nil && creds.SessionToken != "" {
			f.Code = "ExpiredToken" // an answer without a body cannot say so
		}
	}
	f.Region = resp.Header.Get("X-Amz-Bucket-Region")
	if _, region, ok := strings.Cut(f.Message, "expecting '"); ok && f.Region == "" { // which the client leaves out
		f.Region, _, _ = strings.Cut(region, "'")
	}
	var after time.Duration
	if t, ok := errors.AsType[*object.Trouble](rest.Status(resp.Response, nil)); ok {
		after = t.After
	}
	return b.meaning(&f, max(resp.StatusCode, http.StatusMultipleChoices), after)
}

// meaning classifies an answer.
func (b *Bucket) meaning(f *failure, status int, after time.Duration) error {
	err := &answerError{*f, status}
	trouble := func(e object.Effect) error { return &object.Trouble{Err: err, Effect: e, After: after} }
	switch f.Code {
	case "NoSuchKey":
		return fmt.Errorf("%w: %w", storage.ErrNotExist, err)
	case "PreconditionFailed":
		return fmt.Errorf("%w: %w", storage.ErrConflict, err)
	case "ConditionalRequestConflict", "OperationAborted", "SlowDown", "SlowDownRead", "SlowDownWrite", "TooManyRequests",
		"RequestTimeTooSkewed", "ExpiredToken", "ExpiredTokenException", "NoSuchUpload":
		// The clock is corrected, and credentials are fetched again, by now.
		if f.Code == "ExpiredToken" || f.Code == "ExpiredTokenException" {
			if c, ok := b.credentials.(interface{ Invalidate() }); ok {
				c.Invalidate()
			}
		}
		if f.Code == "NoSuchUpload" {
			return trouble(object.Doubtful) // completed by a request whose answer was lost, or aborted
		}
		return trouble(object.Refused)
	case "RequestTimeout", "IncompleteBody", "InternalError", "ServiceUnavailable":
		return trouble(object.Doubtful)
	case "InvalidRange":
		return errRange
	case "XMinioStorageFull", "QuotaExceeded", "InsufficientStorage", "XMinioAdminBucketQuotaExceeded":
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	case "NotImplemented", "InvalidArgument", "MethodNotAllowed":
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	case "AccessDenied":
		if strings.Contains(f.Message, "expired") {
			return trouble(object.Refused) // it was in progress for too long
		}
		return fmt.Errorf("%w: %w", storage.ErrDenied, err)
	}
	switch {
	case status == http.StatusNotFound && f.Code == "":
		return fmt.Errorf("%w: %w", storage.ErrNotExist, err)
	case status == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", storage.ErrConflict, err)
	case status == http.StatusRequestedRangeNotSatisfiable:
		return errRange
	case status == http.StatusConflict, status == http.StatusTooManyRequests:
		return trouble(object.Refused)
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		return trouble(object.Lost) // a proxy gave up; the store may have the request
	case status == http.StatusInsufficientStorage:
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	case status == http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	case status >= 500 || status < 400 && status != http.StatusMovedPermanently && status != http.StatusTemporaryRedirect:
		return trouble(object.Doubtful)
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", storage.ErrDenied, err)
	}
	return err
}

// explain makes a sentence of what failed at start, which names the setting.
func (b *Bucket) explain(err error) error {
	var answer *answerError
	var dns *net.DNSError
	var dial *net.OpError
	where := "Amazon S3"
	if b.c.Endpoint != "" {
		where = *b.endpoint
	}
	switch {
	case errors.Is(err, errNoCredentials):
		return fmt.Errorf("storage.s3: no credentials: set storage.s3.accesskey and storage.s3.secretkey, or give this machine a role, a profile or AWS_ACCESS_KEY_ID: %w", err)
	case errors.As(err, &dns):
		return fmt.Errorf("storage.s3.regionendpoint: cannot find the host %s (is storage.s3.region right?): %w", dns.Name, err)
	case errors.As(err, &answer):
	case errors.As(err, &dial), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("storage.s3.regionendpoint: cannot reach %s: %w", where, err)
	case strings.Contains(err.Error(), "certificate"):
		return fmt.Errorf("storage.s3: the certificate of %s is not trusted: set storage.s3.cafile to the file of its authority: %w", where, err)
	default:
		return fmt.Errorf("storage.s3: cannot use %s: %w", where, err)
	}
	switch code := answer.Code; {
	case code == "NoSuchBucket":
		return fmt.Errorf("storage.s3.bucket: there is no bucket %q at %s: create it, or correct the name: %w", b.c.Bucket, where, err)
	case code == "InvalidAccessKeyId" || code == "InvalidAccessKeyID":
		return fmt.Errorf("storage.s3.accesskey: %s does not know this access key: %w", where, err)
	case code == "SignatureDoesNotMatch":
		return fmt.Errorf("storage.s3.secretkey: the secret key does not belong to the access key: %w", err)
	case code == "RequestTimeTooSkewed":
		direction := "behind"
		if b.clock.Offset() < 0 {
			direction = "ahead of"
		}
		return fmt.Errorf("storage.s3: the clock of this machine is %s %s the store's: set it right: %w", b.clock.Offset().Abs().Round(time.Second), direction, err)
	case code == "AuthorizationHeaderMalformed" || code == "PermanentRedirect" || answer.status == http.StatusMovedPermanently || answer.status == http.StatusTemporaryRedirect:
		hint := ""
		if answer.Region != "" {
			hint = fmt.Sprintf("; the bucket is in %q", answer.Region)
		}
		return fmt.Errorf("storage.s3.region: %q is not the region of the bucket %q%s: %w", b.c.Region, b.c.Bucket, hint, err)
	case answer.status == http.StatusForbidden:
		return fmt.Errorf("storage.s3: the credentials may not list the bucket %q: give them s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject: %w", b.c.Bucket, err)
	case answer.status == http.StatusNotFound || answer.status == http.StatusMethodNotAllowed:
		return fmt.Errorf("storage.s3.regionendpoint: %s does not answer as S3 does (is storage.s3.forcepathstyle right?): %w", where, err)
	}
	return fmt.Errorf("storage.s3: cannot list the bucket %q at %s: %w", b.c.Bucket, where, err)
}
