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
	"slices"
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
func (r *repository) PutBlob(ctx context.Context, d oci.Digest, size int64, content io.Reader) (n int64, err error) {
	body, w := io.Pipe() // the transport may read the body for a moment after the request has failed, and content must not be read then
	var reading sync.WaitGroup
	reading.Go(func() {
		var failed error
		n, failed = io.Copy(w, content)
		w.CloseWithError(failed)
	})
	if from, ok := r.client.blobs.Load(d); ok {
		err = r.Mount(ctx, descriptor("", d, size), from.(string), func() (io.ReadCloser, error) { return body, nil })
	} else {
		err = r.Blobs().Push(ctx, descriptor("", d, size), body)
	}
	_ = body.Close() // it has no error
	reading.Wait()
	if err == nil {
		r.client.blobs.Store(d, r.Reference.Repository)
	}
	return n, err
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

// HasManifest implements [imagecopy.Comparer].
func (r *repository) HasManifest(ctx context.Context, d oci.Digest, m *oci.Manifest) (bool, error) {
	has, err := r.Manifests().Exists(ctx, descriptor("", d, 0))
	if !has || err != nil || m.Subject == nil {
		return has, err
	}
	listed := false
	err = r.Referrers(ctx, descriptor("", m.Subject.Digest, 0), "", func(page []spec.Descriptor) error {
		listed = listed || slices.ContainsFunc(page, func(one spec.Descriptor) bool { return one.Digest == digest.Digest(d) })
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
