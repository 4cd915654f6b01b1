package replication

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	spec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	ref "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/retryafter"
	"slipway/shared/tracing"
)

const (
	dialTimeout   = 10 * time.Second
	smallTimeout  = time.Minute     // of a request without a blob
	answerTimeout = 5 * time.Minute // a registry may copy a large blob before it answers
	stallTimeout  = time.Minute     // in which nothing of an upload is taken
	maxWait       = time.Hour       // of a Retry-After
	maxMetadata   = 8 << 20
	maxPages      = 10_000
)

// client is a target during one turn.
type client struct {
	target    *Target
	login     *auth.Client
	transport *http.Transport
	wait      atomic.Int64 // Retry-After of the last answer that had one, nanoseconds
	accepted  atomic.Bool  // the login was, in this turn
	blobs     sync.Map     // oci.Digest → path of a repository there that has it
}

// newClient makes a client with the login as it is now. It does no I/O at the target.
func newClient(ctx context.Context, t *Target, agent string) (*client, error) {
	user, password, err := t.Login(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the password: %w", err)
	}
	c := &client{target: t, transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: t.CAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: answerTimeout,
		MaxIdleConnsPerHost:   parallel,
		DisableCompression:    true,
		ForceAttemptHTTP2:     true,
	}}
	c.login = &auth.Client{
		Client: &http.Client{Transport: tracing.Transport(c)}, Header: http.Header{"User-Agent": {agent}}, Cache: auth.NewCache(), ClientID: "slipway",
	}
	if user != "" {
		c.login.Credential = auth.StaticCredential(t.URL.Host, auth.Credential{Username: user, Password: password})
	}
	if a, err := netip.ParseAddr(t.URL.Hostname()); t.URL.Hostname() == "localhost" || err == nil && a.IsLoopback() {
		c.login.BlockedRealmPrefixes = []netip.Prefix{} // its token server is there, too
	}
	return c, nil
}

// RoundTrip implements http.RoundTripper.
func (c *client) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.transport.RoundTrip(r)
	if err == nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) {
		c.wait.Store(int64(retryafter.Wait(resp.Header, time.Now(), maxWait)))
	}
	if err == nil && (resp.StatusCode < http.StatusMultipleChoices || resp.StatusCode == http.StatusNotFound) && r.Header.Get("Authorization") != "" {
		c.accepted.Store(true)
	}
	return resp, err
}

// repository returns the repository of that name at the target.
func (c *client) repository(name oci.Name) *repository {
	return &repository{client: c, remote: &remote.Repository{
		Client: c.login, Reference: ref.Reference{Registry: c.target.URL.Host, Repository: c.target.path(name)}, PlainHTTP: c.target.URL.Scheme == "http",
		ManifestMediaTypes: []string{oci.MediaTypeIndex, oci.MediaTypeManifest, oci.MediaTypeDockerList, oci.MediaTypeDockerManifest},
		MaxMetadataBytes:   maxMetadata, TagListMaxPages: maxPages, ReferrerListMaxPages: maxPages, SkipReferrersGC: true,
	}}
}

// repository is a repository at the target.
type repository struct {
	client *client
	remote *remote.Repository
}

// HasBlob implements [imagecopy.Target].
func (r *repository) HasBlob(ctx context.Context, d oci.Digest) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, smallTimeout)
	defer cancel()
	return r.remote.Blobs().Exists(ctx, descriptor("", d, 0))
}

// PutBlob implements [imagecopy.Target]. It mounts what another repository there got in this turn.
func (r *repository) PutBlob(ctx context.Context, d oci.Digest, size int64, content io.Reader) (n int64, err error) {
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body := &upload{content: content, timer: time.AfterFunc(answerTimeout, func() { cancel(errStalled) })}
	defer body.end() //nolint:errcheck // the switch below has looked at it
	if from, ok := r.client.blobs.Load(d); ok && from != r.remote.Reference.Repository {
		err = r.remote.Mount(ctx, descriptor("", d, size), from.(string), func() (io.ReadCloser, error) { return io.NopCloser(body), nil })
	} else {
		err = r.remote.Blobs().Push(ctx, descriptor("", d, size), body)
	}
	switch n, broken := body.end(); {
	case broken != nil:
		return n, fromSource(broken)
	case err != nil:
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = &url.Error{Op: "PUT", URL: r.client.target.URL.String(), Err: cause}
		}
		if r.client.refuses(outer, err) {
			err = &uploadError{err}
		}
		return n, err
	default:
		r.client.blobs.Store(d, r.remote.Reference.Repository)
		return n, nil
	}
}

var errStalled = errors.New("the target takes nothing of an upload")

// uploadError is the end of one upload at a target that answers, such as by a proxy that doesn't take large bodies.
type uploadError struct{ err error }

func (e *uploadError) Error() string { return "the upload was cut: " + e.err.Error() }
func (e *uploadError) Unwrap() error { return e.err }

// refuses reports whether the target answers other requests after an upload that got no answer.
func (c *client) refuses(ctx context.Context, err error) bool {
	failed, ok := errors.AsType[*url.Error](err)
	if !ok || ctx.Err() != nil {
		return false
	}
	if at, err := url.Parse(failed.URL); err != nil || at.Host != c.target.URL.Host { // its token server is away
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	at := c.target.URL.JoinPath()
	at.Path = "/v2/"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return false
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close() //nolint:errcheck // it is only read
	return resp.StatusCode < http.StatusInternalServerError && resp.StatusCode != http.StatusTooManyRequests
}

// upload is the body of a request, which the transport may read for a moment after the request
// has failed.
type upload struct {
	timer *time.Timer

	mu      sync.Mutex
	content io.Reader // nil = the request is over
	n       int64
	broken  error // of content
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.content == nil {
		return 0, io.ErrClosedPipe
	}
	n, err := u.content.Read(p)
	u.n += int64(n)
	switch {
	case errors.Is(err, io.EOF):
		u.timer.Reset(answerTimeout)
	case err != nil:
		u.broken = err
	default:
		u.timer.Reset(stallTimeout)
	}
	return n, err
}

// end ends reading from the content, and returns how much was read and why it could not be.
func (u *upload) end() (int64, error) {
	u.timer.Stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.content = nil
	return u.n, u.broken
}

// PutManifest implements [imagecopy.Target]. If the target has no list of referrers, it maintains
// that in the fallback tag.
func (r *repository) PutManifest(ctx context.Context, d oci.Digest, m *oci.Manifest, body []byte, tags []oci.Tag) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	desc := descriptor(m.MediaType, d, int64(len(body)))
	if len(tags) == 0 {
		return r.remote.Manifests().Push(ctx, desc, bytes.NewReader(body))
	}
	for _, tag := range tags {
		if err := r.remote.Manifests().PushReference(ctx, desc, bytes.NewReader(body), string(tag)); err != nil {
			return err
		}
	}
	return nil
}

// HasManifest implements [imagecopy.Comparer]. A referrer is there only if it is listed, too.
func (r *repository) HasManifest(ctx context.Context, d oci.Digest, m *oci.Manifest) (bool, error) {
	if m.Subject != nil {
		return false, nil
	}
	return r.exists(ctx, d)
}

func (r *repository) exists(ctx context.Context, d oci.Digest) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, smallTimeout)
	defer cancel()
	return r.remote.Manifests().Exists(ctx, descriptor("", d, 0))
}

// Listed implements [imagecopy.Comparer].
func (r *repository) Listed(ctx context.Context, subject oci.Digest) (map[oci.Digest]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	listed := map[oci.Digest]bool{}
	err := r.remote.Referrers(ctx, descriptor("", subject, 0), "", func(page []spec.Descriptor) error {
		for i := range page {
			listed[oci.Digest(page[i].Digest)] = true
		}
		return nil
	})
	return listed, err
}

// tagged returns the digest that the tag has at the target, "" if there is none.
func (r *repository) tagged(ctx context.Context, tag oci.Tag) (oci.Digest, error) {
	ctx, cancel := context.WithTimeout(ctx, smallTimeout)
	defer cancel()
	desc, err := r.remote.Resolve(ctx, string(tag))
	if errors.Is(err, errdef.ErrNotFound) {
		return "", nil
	}
	return oci.Digest(desc.Digest), err
}

// tags lists the tags at the target.
func (r *repository) tags(ctx context.Context) (all []oci.Tag, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err = r.remote.Tags(ctx, "", func(page []string) error {
		for _, t := range page {
			all = append(all, oci.Tag(t))
		}
		return nil
	})
	if status(err) == http.StatusNotFound {
		return nil, nil
	}
	return all, err
}

// deleteTag deletes the tag, and not what it points at, which others may need. The client library
// has no such request.
func (r *repository) deleteTag(ctx context.Context, tag oci.Tag) error {
	ctx, cancel := context.WithTimeout(ctx, smallTimeout)
	defer cancel()
	at := r.client.target.URL.JoinPath()
	at.Path = "/v2/" + r.remote.Reference.Repository + "/manifests/" + string(tag)
	ctx = auth.AppendRepositoryScope(ctx, r.remote.Reference, auth.ActionPull, auth.ActionPush, auth.ActionDelete)
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, at.String(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := r.client.login.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it is only read
	_, _ = io.CopyN(io.Discard, resp.Body, maxMetadata)
	switch resp.StatusCode {
	case http.StatusAccepted, http.StatusOK, http.StatusNoContent, http.StatusNotFound:
		return nil
	default:
		return fmt.Errorf("the target does not delete tags: %w", &errcode.ErrorResponse{Method: req.Method, URL: req.URL, StatusCode: resp.StatusCode})
	}
}

func descriptor(mediaType string, d oci.Digest, size int64) spec.Descriptor {
	return spec.Descriptor{MediaType: mediaType, Digest: digest.Digest(d), Size: size}
}

// status is that of the answer behind the error, 0 without one.
func status(err error) int {
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		return answer.StatusCode
	}
	return 0
}

// down reports whether the error concerns the whole target: it can't be reached, refuses the
// login, or asks for a pause; no failure to read here does, nor of an upload that it cut while it answered. Registries with a token server also answer 401 if the login lacks a
// right. c may be nil.
func (c *client) down(err error) bool {
	if _, ok := errors.AsType[*sourceError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*uploadError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*url.Error](err); ok || errors.Is(err, auth.ErrBasicCredentialNotFound) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch status(err) {
	case http.StatusUnauthorized:
		return c == nil || !c.accepted.Load()
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	default:
		return false
	}
}

// explain begins the error with its meaning for an operator. c may be nil.
func (c *client) explain(err error) error {
	switch code := status(err); {
	case err == nil:
		return nil
	case code == http.StatusUnauthorized && c.down(err), errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("the target refuses the login: %w", err)
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("the login may not do this at the target: %w", err)
	case code == 0 && c.down(err):
		return fmt.Errorf("the target can't be reached: %w", err)
	default:
		return err
	}
}

// path returns the path of a repository at the target.
func (t *Target) path(name oci.Name) string {
	if prefix := strings.Trim(t.URL.Path, "/"); prefix != "" {
		return prefix + "/" + string(name)
	}
	return string(name)
}
