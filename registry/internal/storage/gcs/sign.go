package gcs

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// Signer signs for a service account: with its key, or by asking Google to.
type Signer struct {
	Email string
	Key   *rsa.PrivateKey // nil = Google signs, with one call for each signature

	Tokens   oauth2.TokenSource // for Google
	Endpoint string             // of IAM; "" = Google's
}

// iam is the address at which Google signs.
const iam = "https://iamcredentials.googleapis.com"

// sign signs text.
func (s *Signer) sign(ctx context.Context, client *http.Client, text []byte) ([]byte, error) {
	if s.Key != nil {
		sum := sha256.Sum256(text)
		return rsa.SignPKCS1v15(rand.Reader, s.Key, crypto.SHA256, sum[:])
	}
	content, err := json.Marshal(map[string]string{"payload": base64.StdEncoding.EncodeToString(text)})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(s.Endpoint, iam)+"/v1/projects/-/serviceAccounts/"+url.PathEscape(s.Email)+":signBlob", bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	t, err := s.Tokens.Token()
	if err != nil {
		return nil, tokenFailed(err)
	}
	t.SetAuthHeader(req)
	resp, err := client.Do(req)
	if err != nil {
		return nil, object.Unsent(rest.Failed(ctx, err))
	}
	if resp.StatusCode/100 != 2 {
		return nil, object.Unsent(refusal(resp))
	}
	var signed struct{ SignedBlob string }
	if _, err := answer(ctx, resp, &signed); err != nil {
		return nil, object.Unsent(err)
	}
	return base64.StdEncoding.DecodeString(signed.SignedBlob)
}

// sign returns a URL of the XML interface by which method works for that long, with
// exactly these headers in addition to the usual ones (signature version 4).
func (b *Bucket) sign(ctx context.Context, method, key string, expires time.Duration, header http.Header, query url.Values) (string, error) {
	if b.o.Signer == nil {
		return "", errors.New("no service account can sign")
	}
	text, address := b.toSign(b.clock.Sent(ctx), b.o.Signer.Email, method, key, expires, header, query)
	signature, err := b.o.Signer.sign(ctx, b.client, []byte(text))
	if err != nil {
		return "", err
	}
	return address + "&X-Goog-Signature=" + hex.EncodeToString(signature), nil
}

// toSign is the text that is signed, and the URL without its signature.
func (b *Bucket) toSign(now time.Time, email, method, key string, expires time.Duration, header http.Header, query url.Values) (text, address string) {
	stamp := now.UTC().Format("20060102T150405Z")
	scope := stamp[:8] + "/auto/storage/goog4_request"
	lines := []string{"host:" + b.base.Host}
	names := []string{"host"}
	for name, values := range header {
		lines = append(lines, strings.ToLower(name)+":"+values[0])
		names = append(names, strings.ToLower(name))
	}
	slices.Sort(lines)
	slices.Sort(names)
	q := url.Values{
		"X-Goog-Algorithm": {"GOOG4-RSA-SHA256"}, "X-Goog-Credential": {email + "/" + scope}, "X-Goog-Date": {stamp},
		"X-Goog-Expires": {strconv.Itoa(max(int(expires/time.Second), 1))}, "X-Goog-SignedHeaders": {strings.Join(names, ";")},
	}
	for name, values := range query {
		q[name] = values
	}
	path := b.base.EscapedPath() + "/" + b.o.Bucket + "/" + escapePath(key)
	encoded := strings.ReplaceAll(q.Encode(), "+", "%20")
	canonical := strings.Join([]string{method, path, encoded, strings.Join(lines, "\n") + "\n", strings.Join(names, ";"), "UNSIGNED-PAYLOAD"}, "\n")
	sum := sha256.Sum256([]byte(canonical))
	return "GOOG4-RSA-SHA256\n" + stamp + "\n" + scope + "\n" + hex.EncodeToString(sum[:]), b.base.Scheme + "://" + b.base.Host + path + "?" + encoded
}

// maxURLs bounds the signed URLs that are kept, of about 1 KiB each.
const maxURLs = 2048

// urlID identifies a signed URL.
type urlID struct {
	method, key, contentType string
	expires                  time.Duration
}

type signedURL struct {
	url   string
	until time.Time
}

// SignedURL implements object.Bucket. A signature costs milliseconds or a request, so a URL
// is used again until half of its time is over.
func (b *Bucket) SignedURL(ctx context.Context, method, key string, expires time.Duration, o object.URLOptions) (string, error) {
	expires = min(expires, 7*24*time.Hour)
	id, now := urlID{method, key, o.ContentType, expires}, time.Now()
	if signed, ok := b.urls.Get(id); ok && now.Before(signed.until) {
		return signed.url, nil
	}
	query := url.Values{}
	if o.ContentType != "" {
		query.Set("response-content-type", o.ContentType)
	}
	signed, err := b.sign(ctx, method, key, expires, nil, query)
	if err == nil {
		b.urls.Put(id, signedURL{signed, now.Add(expires / 2)}, 1)
	}
	return signed, err
}

// escapePath escapes all but slashes.
func escapePath(key string) string {
	parts := strings.Split(key, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.QueryEscape(p), "+", "%20")
	}
	return strings.Join(parts, "/")
}
