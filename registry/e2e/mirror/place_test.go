package mirror

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/shared/programtest"
)

// place is a storage that mirrors of an upstream keep their cache on.
type place struct {
	command func(addr string, env ...string) *exec.Cmd // a mirror there
	holds   func(digest string) bool                   // whether the bytes of a blob are there
	uploads func() []string                            // what uploads and temporary files are there
	config  string                                     // of the storage, for commands
	lease   time.Duration                              // how long the lease of a dead mirror may last
}

// start starts a mirror.
func (p *place) start(t testing.TB, env ...string) *harness.Process {
	t.Helper()
	addr := programtest.FreeAddr(t)
	return harness.Start(t, addr, p.command(addr, env...))
}

// allPlaces are the storages that mirrors are tried on.
var allPlaces = map[string]func(t *testing.T, upstream string) *place{"filesystem": onFilesystem, "MinIO": onMinIO}

func onFilesystem(t *testing.T, upstream string) *place {
	root := t.TempDir()
	return &place{
		command: func(addr string, env ...string) *exec.Cmd { return mirrorCommand(addr, upstream, root, env...) },
		holds:   func(digest string) bool { return harness.OnDisk(t, root, digest) },
		uploads: func() []string { return harness.Debris(t, root) },
		config:  writeConfig(t, root),
	}
}

func onMinIO(t *testing.T, upstream string) *place { return onS3(t, s3test.MinIO, upstream) }

func onS3(t *testing.T, start s3test.Start, upstream string) *place {
	server, bucket := harness.S3Bucket(t, start)
	return onBucket(t, bucket, server.URL(), upstream)
}

// onBucket reaches the bucket through the endpoint.
func onBucket(t *testing.T, bucket object.Bucket, endpoint, upstream string) *place {
	return &place{
		command: func(addr string, env ...string) *exec.Cmd {
			cmd := exec.Command(harness.Binary, "serve", harness.WriteS3Config(t, addr, endpoint))
			cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), "REGISTRY_PROXY_REMOTEURL=http://" + upstream}, env...)
			return cmd
		},
		holds: func(digest string) bool { return harness.InBucket(t, bucket, digest) },
		uploads: func() (left []string) {
			for after := ""; ; {
				page, err := bucket.List(t.Context(), "some/root/", object.ListOptions{After: after})
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Entries {
					if after = e.Key; strings.Contains(e.Key, "/_uploads/") {
						left = append(left, e.Key)
					}
				}
				if page.Next != "" {
					after = page.Next
				}
				if !page.More {
					break
				}
			}
			return left
		},
		config: harness.WriteS3Config(t, "127.0.0.1:0", endpoint),
		lease:  40 * time.Second,
	}
}

// fullBucket stands before an S3 server and lets nothing be written while it is full.
type fullBucket struct {
	*httptest.Server
	full atomic.Bool
}

func startFullBucket(t testing.TB, endpoint string) *fullBucket {
	t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	next := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }}
	b := &fullBucket{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.full.Load() && (r.Method == http.MethodPut || r.Method == http.MethodPost) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusInsufficientStorage)
			io.WriteString(w, `<?xml version="1.0"?><Error><Code>XMinioStorageFull</Code><Message>full</Message></Error>`)
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

// A bucket that takes nothing does not keep clients from an image.
func TestMirror_FullBucket(t *testing.T) {
	up := harness.StartRegistry(t, t.TempDir())
	server, bucket := harness.S3Bucket(t, s3test.VersityGW)
	front := startFullBucket(t, server.URL())
	p := onBucket(t, bucket, front.URL, up.Addr).start(t)
	img := harness.NewImage(t, 130, 2, 9_000_000)
	img.Push(t, up.Addr, "app", "v1")
	front.full.Store(true)
	img.Pulls(t, p.Addr, "app", "v1")
	front.full.Store(false)
	img.Pulls(t, p.Addr, "app", "v1")
}
