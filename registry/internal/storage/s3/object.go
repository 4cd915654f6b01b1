package s3

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the protocol's checksum, not a signature
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// Head implements object.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (object.Info, error) {
	out, err := b.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.c.Bucket, Key: &key})
	if err != nil {
		return object.Info{}, b.failed(ctx, err)
	}
	return b.info(key, aws.ToInt64(out.ContentLength), out.LastModified, out.ETag, out.Metadata), nil
}

func (b *Bucket) info(key string, size int64, modified *time.Time, etag *string, metadata map[string]string) object.Info {
	return object.Info{
		Key: key, Size: size, Modified: aws.ToTime(modified).Truncate(time.Second).UTC(), Version: version(etag),
		Writer: metadata["writer"], Now: b.clock.Now(),
	}
}

// errRange means that an object has no byte at an offset.
var errRange = errors.New("InvalidRange")

// Get implements object.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, object.Info, error) {
	in := &s3.GetObjectInput{Bucket: &b.c.Bucket, Key: &key}
	switch {
	case length == 0:
		info, err := b.Head(ctx, key)
		return http.NoBody, info, err
	case length > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", offset))
	}
	out, err := b.api.GetObject(ctx, in)
	if err != nil {
		err = b.failed(ctx, err)
		if errors.Is(err, errRange) {
			info, err := b.Head(ctx, key)
			return http.NoBody, info, err
		}
		return nil, object.Info{}, err
	}
	size, body := aws.ToInt64(out.ContentLength), out.Body
	switch {
	case in.Range == nil:
	case out.ContentRange != nil:
		_, total, _ := strings.Cut(*out.ContentRange, "/")
		if size, err = strconv.ParseInt(total, 10, 64); err != nil {
			body.Close()
			return nil, object.Info{}, fmt.Errorf("the store answers a range with Content-Range %q", *out.ContentRange)
		}
	case out.ContentLength == nil || size < 0: // the whole object, which some proxies send
		body.Close()
		return nil, object.Info{}, errors.New("the store answers a range with the whole object, and does not say how long that is")
	default: // a range of the whole object
		r := &rangeOf{ReadCloser: body, skip: offset, left: max(size-offset, 0)}
		if length >= 0 {
			r.left = min(r.left, length)
		}
		body = r
	}
	return body, b.info(key, size, out.LastModified, out.ETag, out.Metadata), nil
}

// rangeOf reads left bytes after the first ones.
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
	in := &s3.PutObjectInput{
		Bucket: &b.c.Bucket, Key: &key, Body: content(body), ContentLength: &body.Size, ContentType: &octets, Metadata: metadata(o),
		StorageClass: b.class(), ACL: b.acl(),
	}
	in.ServerSideEncryption, in.SSEKMSKeyId = b.encryption()
	in.IfMatch, in.IfNoneMatch = condition(o.If)
	if o.Expire {
		ctx = rest.Expiring(ctx)
		h := md5.New() //nolint:gosec // the protocol's checksum, not a signature
		if _, err := io.Copy(h, content(body)); err != nil {
			return "", err
		}
		in.ContentMD5 = aws.String(base64.StdEncoding.EncodeToString(h.Sum(nil)))
	}
	out, err := b.api.PutObject(ctx, in, knownHash(body.SHA256))
	if err != nil {
		err = b.failed(ctx, err)
		if errors.Is(err, storage.ErrNotExist) && o.If.Version() != "" {
			err = storage.ErrConflict
		}
		return "", err
	}
	return version(out.ETag), nil
}

// knownHash saves reading a body whose hash is known once more.
func knownHash(sum string) func(*s3.Options) {
	return func(o *s3.Options) {
		if sum == "" {
			return
		}
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("KnownPayloadHash",
				func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
					return next.HandleFinalize(v4.SetPayloadHash(ctx, sum), in)
				}), "ComputePayloadHash", middleware.Before)
		})
	}
}

// Delete implements object.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string, c storage.Condition) error {
	in := &s3.DeleteObjectInput{Bucket: &b.c.Bucket, Key: &key}
	in.IfMatch, _ = condition(c)
	_, err := b.api.DeleteObject(rest.Expiring(ctx), in)
	err = b.failed(ctx, err)
	if errors.Is(err, storage.ErrNotExist) && c == (storage.Condition{}) {
		return nil
	}
	return err
}

// Touch implements object.Bucket: a copy of the object onto itself.
func (b *Bucket) Touch(ctx context.Context, key, version string) error {
	match, _ := condition(storage.IfVersion(version))
	in := &s3.CopyObjectInput{
		Bucket: &b.c.Bucket, Key: &key, CopySource: b.source(key), CopySourceIfMatch: match, IfMatch: match,
		MetadataDirective: types.MetadataDirectiveReplace, // otherwise S3 refuses, as nothing would change
		ContentType:       &octets, StorageClass: b.class(), ACL: b.acl(),
	}
	in.ServerSideEncryption, in.SSEKMSKeyId = b.encryption()
	_, err := b.api.CopyObject(rest.Expiring(ctx), in)
	return b.failed(ctx, err)
}

// DeleteMany implements object.Bucket.
func (b *Bucket) DeleteMany(ctx context.Context, keys []string) error {
	in := &s3.DeleteObjectsInput{Bucket: &b.c.Bucket, Delete: &types.Delete{Quiet: aws.Bool(true)}}
	for _, key := range keys {
		in.Delete.Objects = append(in.Delete.Objects, types.ObjectIdentifier{Key: &key})
	}
	out, err := b.api.DeleteObjects(rest.Expiring(ctx), in)
	if err != nil {
		return b.failed(ctx, err)
	}
	for _, f := range out.Errors {
		code := aws.ToString(f.Code)
		if code == "NoSuchKey" {
			continue
		}
		// One of many was refused for a moment, or for good.
		cause := fmt.Errorf("cannot delete %s: %s: %s", aws.ToString(f.Key), code, aws.ToString(f.Message))
		if code == "AccessDenied" {
			return fmt.Errorf("%w: %w", storage.ErrDenied, cause)
		}
		return &object.Trouble{Err: cause, Effect: object.Doubtful}
	}
	return nil
}

// Redirects implements object.Bucket.
func (b *Bucket) Redirects() bool { return true }

// SignedURL implements object.Bucket. It works no longer than temporary credentials behind it.
func (b *Bucket) SignedURL(ctx context.Context, method, key string, expires time.Duration, o object.URLOptions) (string, error) {
	life := s3.WithPresignExpires(expires)
	var signed *v4.PresignedHTTPRequest
	var err error
	if method == http.MethodHead {
		signed, err = b.urls.PresignHeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.c.Bucket, Key: &key}, life)
	} else {
		in := &s3.GetObjectInput{Bucket: &b.c.Bucket, Key: &key}
		if o.ContentType != "" {
			in.ResponseContentType = &o.ContentType
		}
		signed, err = b.urls.PresignGetObject(ctx, in, life)
	}
	if err != nil {
		return "", err
	}
	return signed.URL, nil
}

var octets = "application/octet-stream"

// content is the part of a body that a request sends.
func content(b object.Body) io.ReadSeeker {
	if b.Size == 0 {
		return bytes.NewReader(nil)
	}
	return io.NewSectionReader(b.Content, 0, b.Size)
}

func condition(c storage.Condition) (match, noneMatch *string) {
	if c.Absent() {
		noneMatch = aws.String("*")
	}
	if v := c.Version(); v != "" {
		match = aws.String(`"` + v + `"`)
	}
	return match, noneMatch
}

func metadata(o object.PutOptions) map[string]string {
	if o.Writer == "" {
		return nil
	}
	return map[string]string{"writer": o.Writer}
}

func version(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }

// source names an object to copy.
func (b *Bucket) source(key string) *string {
	var s strings.Builder
	for _, c := range []byte(b.c.Bucket + "/" + key) {
		if c == '/' || c == '-' || c == '_' || c == '.' || c == '~' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' {
			s.WriteByte(c)
		} else {
			fmt.Fprintf(&s, "%%%02X", c)
		}
	}
	return aws.String(s.String())
}

func (b *Bucket) encryption() (types.ServerSideEncryption, *string) {
	switch {
	case !b.c.Encrypt:
		return "", nil
	case b.c.KeyID == "":
		return types.ServerSideEncryptionAes256, nil
	}
	return types.ServerSideEncryptionAwsKms, &b.c.KeyID
}

func (b *Bucket) class() types.StorageClass {
	if b.c.StorageClass == "NONE" {
		return ""
	}
	return types.StorageClass(b.c.StorageClass)
}

func (b *Bucket) acl() types.ObjectCannedACL {
	if b.c.ACL == "private" {
		return ""
	}
	return types.ObjectCannedACL(b.c.ACL)
}
