package s3

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the protocol's checksum, not a signature
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// request is one request to the bucket.
type request struct {
	method string
	key    string // "" = the bucket itself
	query  url.Values
	header http.Header
	body   object.Body
	// expire signs in the URL, which ends the request's life after expiry.
	expire bool
}

const (
	unsigned = "UNSIGNED-PAYLOAD"
	noBytes  = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	// smallBody is hashed before it is sent.
	smallBody = 1 << 20
)

// send sends a request once. An answer that is no success is an error.
func (b *Bucket) send(ctx context.Context, r *request) (*http.Response, error) {
	req, err := b.build(ctx, b.base, r)
	if err != nil {
		return nil, err
	}
	if err := b.sign(ctx, req, r); err != nil {
		return nil, err
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return nil, rest.Failed(ctx, err)
	}
	b.clock.Observe(resp)
	if resp.StatusCode >= 300 {
		return nil, b.refused(ctx, resp, r)
	}
	return resp, nil
}

// build makes the request, unsigned.
func (b *Bucket) build(ctx context.Context, base *url.URL, r *request) (*http.Request, error) {
	u := *base
	u.Path = base.Path + "/" + r.key
	u.RawPath = escape(u.Path)
	u.RawQuery = strings.ReplaceAll(r.query.Encode(), "+", "%20")
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), rest.Content(r.body))
	if err != nil {
		return nil, err
	}
	req.ContentLength = r.body.Size
	for name, values := range r.header {
		req.Header[name] = values
	}
	if b.c.UserAgent != "" {
		req.Header.Set("User-Agent", b.c.UserAgent)
	}
	return req, nil
}

// escape is a path as it is signed: everything but unreserved characters and slashes.
func escape(path string) string {
	var s strings.Builder
	for i := range len(path) {
		c := path[i]
		if c == '/' || c == '-' || c == '_' || c == '.' || c == '~' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' {
			s.WriteByte(c)
		} else {
			fmt.Fprintf(&s, "%%%02X", c)
		}
	}
	return s.String()
}

func (b *Bucket) sign(ctx context.Context, req *http.Request, r *request) error {
	creds, err := b.credentials.Retrieve(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &object.Trouble{Err: fmt.Errorf("%w: %w", errNoCredentials, err), Effect: object.Refused}
	}
	if r.expire {
		q := req.URL.Query()
		q.Set("X-Amz-Expires", strconv.Itoa(int(expiry.Seconds())))
		req.URL.RawQuery = q.Encode()
		if r.body.Size > 0 {
			sum, err := sumMD5(r.body)
			if err != nil {
				return err
			}
			req.Header.Set("Content-Md5", sum)
		}
		signed, _, err := b.signer.PresignHTTP(ctx, creds, req, unsigned, "s3", b.c.Region, b.clock.Sent(ctx))
		if err != nil {
			return err
		}
		req.URL, err = url.Parse(signed)
		return err
	}
	hash, err := b.payloadHash(r.body)
	if err != nil {
		return err
	}
	req.Header.Set("X-Amz-Content-Sha256", hash)
	// A long Compose has many requests, each signed when it is sent.
	return b.signer.SignHTTP(ctx, creds, req, hash, "s3", b.c.Region, b.clock.Now())
}

// payloadHash is the hash of a body that is known or small. Over TLS, others need none.
func (b *Bucket) payloadHash(body object.Body) (string, error) {
	switch {
	case body.Size == 0:
		return noBytes, nil
	case body.SHA256 != "":
		return body.SHA256, nil
	case body.Size > smallBody && b.base.Scheme == "https":
		return unsigned, nil
	}
	h := sha256.New()
	_, err := io.Copy(h, io.NewSectionReader(body.Content, 0, body.Size))
	return hex.EncodeToString(h.Sum(nil)), err
}

func sumMD5(body object.Body) (string, error) {
	h := md5.New() //nolint:gosec // the protocol's checksum, not a signature
	_, err := io.Copy(h, io.NewSectionReader(body.Content, 0, body.Size))
	return base64.StdEncoding.EncodeToString(h.Sum(nil)), err
}

// bytesBody is a body of bytes in memory.
func bytesBody(content []byte) object.Body {
	return object.Body{Content: bytes.NewReader(content), Size: int64(len(content))}
}

// condition sets the headers of a condition.
func condition(h http.Header, c storage.Condition) {
	if c.Absent() {
		h.Set("If-None-Match", "*")
	}
	if v := c.Version(); v != "" {
		h.Set("If-Match", `"`+v+`"`)
	}
}

// putHeader is what every new object has.
func (b *Bucket) putHeader(o object.PutOptions) http.Header {
	h := http.Header{"Content-Type": {"application/octet-stream"}}
	if o.Writer != "" {
		h.Set("X-Amz-Meta-Writer", o.Writer)
	}
	if b.c.Encrypt {
		h.Set("X-Amz-Server-Side-Encryption", "AES256")
		if b.c.KeyID != "" {
			h.Set("X-Amz-Server-Side-Encryption", "aws:kms")
			h.Set("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", b.c.KeyID)
		}
	}
	if b.c.StorageClass != "" && b.c.StorageClass != "NONE" {
		h.Set("X-Amz-Storage-Class", b.c.StorageClass)
	}
	if b.c.ACL != "" && b.c.ACL != "private" {
		h.Set("X-Amz-Acl", b.c.ACL)
	}
	return h
}

func version(h http.Header) string { return strings.Trim(h.Get("Etag"), `"`) }
