// Package urls builds the URLs that the API gives to clients, and signs the state in those of uploads.
package urls

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/clientaddr"
	"slipway/registry/internal/oci"
)

// Builder builds the links that clients follow.
type Builder struct {
	Prefix   string // "" or "/reg"
	host     string // "" or "https://example.org/reg": wins over the request's headers
	relative bool
}

// New returns a Builder for http.prefix, http.host and http.relativeurls. The error is about
// http.host.
func New(prefix, host string, relative bool) (Builder, error) {
	b := Builder{relative: relative}
	if p := strings.Trim(prefix, "/"); p != "" {
		b.Prefix = "/" + p
	}
	if host == "" {
		return b, nil
	}
	parsed, err := url.Parse(host)
	if err != nil || parsed.Scheme == "" || parsed.Host == "" {
		return b, fmt.Errorf("http.host must be a URL with scheme and host, like https://registry.example.org, not %q", host)
	}
	base := strings.TrimRight(parsed.EscapedPath(), "/")
	if base == "" {
		base = b.Prefix // a configured path includes the prefix
	}
	b.host = parsed.Scheme + "://" + parsed.Host + base
	return b, nil
}

// Protection returns the protection against cross-origin requests. It trusts the registry's own
// origin: the request's Host and that of http.host.
func (b *Builder) Protection() (*http.CrossOriginProtection, error) {
	p := http.NewCrossOriginProtection()
	if b.host == "" {
		return p, nil
	}
	parsed, err := url.Parse(b.host) // checked by New
	if err == nil {
		err = p.AddTrustedOrigin(parsed.Scheme + "://" + parsed.Host)
	}
	return p, err
}

// Root returns the part of a Location before "/v2/".
func (b *Builder) Root(r *http.Request) string {
	if b.host != "" {
		return b.host
	}
	if b.relative {
		return b.Prefix
	}
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if s, h := clientaddr.Forwarded(r.Header); s != "" || h != "" {
		scheme, host = cmp.Or(s, scheme), cmp.Or(h, host)
	}
	return scheme + "://" + host + b.Prefix
}

// Absolute returns the root as an absolute URL, also if http.relativeurls is set.
func (b *Builder) Absolute(r *http.Request) string {
	absolute := *b
	absolute.relative = false
	return absolute.Root(r)
}

// Own reports whether host is this registry's: that of http.host, of the request, or one of
// further names.
func (b *Builder) Own(r *http.Request, host string, further []string) bool {
	names := append([]string{r.Host}, further...)
	if _, forwarded := clientaddr.Forwarded(r.Header); forwarded != "" {
		names = append(names, forwarded)
	}
	if parsed, err := url.Parse(b.host); err == nil {
		names = append(names, parsed.Host)
	}
	plain := func(host string) string {
		return strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80"))
	}
	return slices.ContainsFunc(names, func(name string) bool { return plain(name) == plain(host) })
}

// Base returns the path of the root, as browsers see it.
func (b *Builder) Base() string {
	if parsed, err := url.Parse(b.host); err == nil && parsed.Host != "" {
		return parsed.EscapedPath()
	}
	return b.Prefix
}

// PublicRoot returns a function that returns the absolute URL, without /v2/, by which a client
// reaches the registry. The error is about host.
func PublicRoot(prefix, host string) (func(*http.Request) string, error) {
	b, err := New(prefix, host, false)
	if err != nil {
		return nil, err
	}
	return b.Root, nil
}

// RedirectRealm returns the URL of a token server behind the same host, as distribution's
// autoredirect does: https unless a proxy says otherwise.
func RedirectRealm(r *http.Request, path string) string {
	scheme, host := clientaddr.Forwarded(r.Header)
	return cmp.Or(scheme, "https") + "://" + cmp.Or(host, r.Host) + path
}

// Blob returns the URL of a blob.
func (b *Builder) Blob(r *http.Request, name oci.Name, d oci.Digest) string {
	return b.Root(r) + "/v2/" + string(name) + "/blobs/" + string(d)
}

// Manifest returns the URL of a manifest.
func (b *Builder) Manifest(r *http.Request, name oci.Name, d oci.Digest) string {
	return b.Root(r) + "/v2/" + string(name) + "/manifests/" + string(d)
}

// Upload returns the URL at which a client continues an upload.
func (b *Builder) Upload(r *http.Request, name oci.Name, id, state string) string {
	return b.Root(r) + "/v2/" + string(name) + "/blobs/uploads/" + id + "?_state=" + url.QueryEscape(state)
}

// Clean returns the path without empty and dot elements; a slash at its end stays.
func Clean(p string) string {
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// UploadState is the content of the _state parameter of an upload's Location: how far the upload
// had come. CNCF distribution writes the same document, so an upload can continue at either, and at
// any replica that has the same http.secret.
type UploadState struct {
	Name      oci.Name
	UUID      string
	Offset    int64
	StartedAt time.Time
	Algorithm oci.Algorithm `json:",omitempty"` // ours: distribution passes over it
}

// Signer signs and reads the _state parameter.
type Signer struct{ Secret []byte }

// Sign returns base64url(HMAC-SHA256(secret, document) ‖ document).
func (s Signer) Sign(st UploadState) (string, error) {
	doc, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	return base64.URLEncoding.EncodeToString(append(s.mac(doc), doc...)), nil
}

// Read checks the signature, and that the state is that of this upload. The
// error is BLOB_UPLOAD_INVALID.
func (s Signer) Read(token string, name oci.Name, id string) (UploadState, error) {
	var st UploadState
	raw, err := base64.URLEncoding.DecodeString(token)
	if err != nil || len(raw) < sha256.Size {
		return st, oci.Explain(oci.CodeBlobUploadInvalid, "the upload's state is malformed")
	}
	mac, doc := raw[:sha256.Size], raw[sha256.Size:]
	if !hmac.Equal(mac, s.mac(doc)) {
		return st, oci.Explain(oci.CodeBlobUploadInvalid, "the upload's state is not signed by this registry")
	}
	if err := json.Unmarshal(doc, &st); err != nil {
		return st, oci.Explain(oci.CodeBlobUploadInvalid, "the upload's state is malformed")
	}
	if st.Name != name || st.UUID != id {
		return st, oci.Explain(oci.CodeBlobUploadInvalid, "the upload's state belongs to another upload")
	}
	return st, nil
}

func (s Signer) mac(doc []byte) []byte {
	h := hmac.New(sha256.New, s.Secret)
	h.Write(doc)
	return h.Sum(make([]byte, 0, sha256.Size+len(doc)))
}
