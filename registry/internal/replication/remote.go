package replication

import (
	"bytes"
	"context"
	"crypto/tls"
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
	maxPages    = 1_000
)

// newClient makes a client, which reads the login when the target asks for it. It does no I/O.
func newClient(t *Target, agent string) *auth.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
		return conn{c}, err
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: t.CAs, MinVersion: tls.VersionTLS12}
	transport.ResponseHeaderTimeout, transport.MaxIdleConnsPerHost = stall, parallel
	c := &auth.Client{
		Client: &http.Client{Transport: tracing.Transport(transport)},
		Header: http.Header{"User-Agent": {agent}}, Cache: auth.NewCache(), ClientID: "slipway",
		Credential: func(ctx context.Context, host string) (login auth.Credential, err error) {
			if host == t.URL.Host {
				login.Username, login.Password, err = t.Login(ctx)
			}
			return login, err
		},
	}
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
	blobs *sync.Map // oci.Digest → path of a repository there that has it
}

func newRepository(t *Target, c *auth.Client, blobs *sync.Map, name oci.Name) *repository {
	path := strings.TrimPrefix(strings.Trim(t.URL.Path, "/")+"/"+string(name), "/")
	return &repository{blobs: blobs, Repository: &remote.Repository{
		Client: c, Reference: ref.Reference{Registry: t.URL.Host, Repository: path}, PlainHTTP: t.URL.Scheme == "http",
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
	body, w := io.Pipe() // the transport may read the body for a moment after the request has failed, and content must not be read then
	var reading sync.WaitGroup
	reading.Go(func() {
		_, err := io.Copy(w, content)
		w.CloseWithError(err)
	})
	var err error
	if from, ok := r.blobs.Load(d); ok {
		err = r.Mount(ctx, descriptor("", d, size), from.(string), func() (io.ReadCloser, error) { return body, nil })
	} else {
		err = r.Blobs().Push(ctx, descriptor("", d, size), body)
	}
	_ = body.Close() // it has no error
	reading.Wait()
	if err == nil {
		r.blobs.Store(d, r.Reference.Repository)
	}
	return size, err
}

// PutManifest implements [imagecopy.Target]. If the target has no list of referrers, it maintains
// that in the fallback tag.
func (r *repository) PutManifest(ctx context.Context, d oci.Digest, m *oci.Manifest, body []byte, tags []oci.Tag) error {
	at := string(d)
	if len(tags) > 0 {
		at = string(tags[0]) // tags are copied one by one
	}
	return r.Manifests().PushReference(ctx, descriptor(m.MediaType, d, int64(len(body))), bytes.NewReader(body), at)
}

// HasManifest implements [imagecopy.Comparer].
func (r *repository) HasManifest(ctx context.Context, d oci.Digest, m *oci.Manifest) (bool, error) {
	has, err := r.Manifests().Exists(ctx, descriptor("", d, 0))
	if !has || err != nil || m.Subject == nil {
		return has, err
	}
	list, err := ref.Referrers(ctx, r, descriptor(oci.MediaTypeManifest, m.Subject.Digest, 0), "") // of any type
	return slices.ContainsFunc(list, func(one spec.Descriptor) bool { return one.Digest == digest.Digest(d) }), err
}

func descriptor(mediaType string, d oci.Digest, size int64) spec.Descriptor {
	return spec.Descriptor{MediaType: mediaType, Digest: digest.Digest(d), Size: size}
}
