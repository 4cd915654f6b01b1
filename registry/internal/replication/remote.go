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
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	spec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	ref "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"slipway/registry/internal/oci"
	"slipway/shared/tracing"
)

const (
	dialTimeout = 10 * time.Second
	stall       = 5 * time.Minute // in which nothing moves on a connection: a registry may copy a large blob before it answers
	maxMetadata = 8 << 20
	maxPages    = 10_000
)

// client is a target during one turn.
type client struct {
	*auth.Client
	target *Target
	blobs  sync.Map // oci.Digest → path of a repository there that has it
}

// newClient makes a client, which reads the login when the target asks for it. It does no I/O.
func newClient(t *Target, agent string) *client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	c := &client{target: t, Client: &auth.Client{
		Client: &http.Client{Transport: tracing.Transport(&http.Transport{
			Proxy: http.ProxyFromEnvironment,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := dialer.DialContext(ctx, network, address)
				return conn{c}, err
			},
			TLSClientConfig:       &tls.Config{RootCAs: t.CAs, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:   dialTimeout,
			ResponseHeaderTimeout: stall,
			MaxIdleConnsPerHost:   parallel,
			DisableCompression:    true,
			ForceAttemptHTTP2:     true,
		})},
		Header: http.Header{"User-Agent": {agent}}, Cache: auth.NewCache(), ClientID: "slipway",
		Credential: func(ctx context.Context, host string) (login auth.Credential, err error) {
			if host == t.URL.Host {
				login.Username, login.Password, err = t.Login(ctx)
			}
			return login, err
		},
	}}
	if a, err := netip.ParseAddr(t.URL.Hostname()); t.URL.Hostname() == "localhost" || err == nil && a.IsLoopback() {
		c.BlockedRealmPrefixes = []netip.Prefix{} // its token server is there, too
	}
	return c
}

// conn is a connection that fails when nothing moves on it.
type conn struct{ net.Conn }

// Read implements io.Reader.
func (c conn) Read(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(stall)) // on failure the connection is closed
	return c.Conn.Read(p)
}

// Write implements io.Writer.
func (c conn) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(stall)) // also of the read that waits for the answer
	return c.Conn.Write(p)
}

// repository is a repository at the target.
type repository struct {
	*remote.Repository
	client *client
}

func (c *client) repository(name oci.Name) *repository {
	path := strings.TrimPrefix(strings.Trim(c.target.URL.Path, "/")+"/"+string(name), "/")
	return &repository{client: c, Repository: &remote.Repository{
		Client: c, Reference: ref.Reference{Registry: c.target.URL.Host, Repository: path}, PlainHTTP: c.target.URL.Scheme == "http",
		ManifestMediaTypes: []string{oci.MediaTypeIndex, oci.MediaTypeManifest, oci.MediaTypeDockerList, oci.MediaTypeDockerManifest},
		MaxMetadataBytes:   maxMetadata, TagListMaxPages: maxPages, ReferrerListMaxPages: maxPages, SkipReferrersGC: true,
	}}
}

// HasBlob implements [imagecopy.Target].
func (r *repository) HasBlob(ctx context.Context, d oci.Digest) (bool, error) {
	return r.Blobs().Exists(ctx, descriptor("", d, 0))
}

// PutBlob implements [imagecopy.Target]. It mounts what another repository there got in this turn.
func (r *repository) PutBlob(ctx context.Context, d oci.Digest, size int64, content io.Reader) (int64, error) {
	body := &upload{content: content}
	var err error
	if from, ok := r.client.blobs.Load(d); ok {
		err = r.Mount(ctx, descriptor("", d, size), from.(string), func() (io.ReadCloser, error) { return body, nil })
	} else {
		err = r.Blobs().Push(ctx, descriptor("", d, size), body)
	}
	if err == nil {
		r.client.blobs.Store(d, r.Reference.Repository)
	}
	_ = body.Close() // it has no error
	return body.n, err
}

// upload is the body of a request, which the transport may read for a moment after the request has failed.
type upload struct {
	mu      sync.Mutex
	content io.Reader // nil = the request is over
	n       int64
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (n int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.content == nil {
		return 0, io.ErrClosedPipe
	}
	n, err = u.content.Read(p)
	u.n += int64(n)
	return n, err
}

// Close implements io.Closer.
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.content = nil
	return nil
}

// PutManifest implements [imagecopy.Target]. If the target has no list of referrers, it maintains
// that in the fallback tag.
func (r *repository) PutManifest(ctx context.Context, d oci.Digest, m *oci.Manifest, body []byte, tags []oci.Tag) error {
	desc := descriptor(m.MediaType, d, int64(len(body)))
	if len(tags) == 0 {
		return r.Manifests().Push(ctx, desc, bytes.NewReader(body))
	}
	for _, tag := range tags {
		if err := r.Manifests().PushReference(ctx, desc, bytes.NewReader(body), string(tag)); err != nil {
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
	return r.Manifests().Exists(ctx, descriptor("", d, 0))
}

// Listed implements [imagecopy.Comparer].
func (r *repository) Listed(ctx context.Context, subject oci.Digest) (map[oci.Digest]bool, error) {
	listed := map[oci.Digest]bool{}
	err := r.Referrers(ctx, descriptor("", subject, 0), "", func(page []spec.Descriptor) error {
		for i := range page {
			listed[oci.Digest(page[i].Digest)] = true
		}
		return nil
	})
	return listed, err
}

// deleteTag deletes the tag, and not what it points at, which others may need.
func (r *repository) deleteTag(ctx context.Context, tag oci.Tag) error {
	err := r.Manifests().Delete(ctx, descriptor("", oci.Digest(tag), 0)) // the library has no request of its own for tags
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return fmt.Errorf("the target does not delete tags: %w", err)
	}
	return nil
}

func descriptor(mediaType string, d oci.Digest, size int64) spec.Descriptor {
	return spec.Descriptor{MediaType: mediaType, Digest: digest.Digest(d), Size: size}
}
