package proxy_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// checkRegistry does what clients do through a proxy.
func checkRegistry(t *testing.T, f *front) {
	t.Run("locations", func(t *testing.T) { checkLocations(t, f) })
	t.Run("chunks", func(t *testing.T) { checkChunks(t, f) })
	t.Run("large layer", func(t *testing.T) { checkLargeLayer(t, f) })
	t.Run("token service", func(t *testing.T) { checkTokens(t, f) })
	t.Run("nothing else", func(t *testing.T) {
		for _, path := range []string{"/debug/health", "/metrics", "/debug/pprof/", "/"} {
			resp, body := ask(t, f.client("127.0.0.1", true), http.MethodGet, f.url(registryName, path), nil, nil)
			want(t, resp, http.StatusNotFound, body)
		}
	})
}

// checkLocations wants every client sent to where it came from, whatever it says
// of itself.
func checkLocations(t *testing.T, f *front) {
	for name, prepare := range map[string]func(*http.Request){
		"plain":             nil,
		"X-Forwarded-Host":  header("X-Forwarded-Host", "evil.example.org"),
		"X-Forwarded-Proto": header("X-Forwarded-Proto", "http"),
		"Forwarded":         header("Forwarded", "proto=http;host=evil.example.org"),
	} {
		resp, body := ask(t, f.client("127.0.0.1", true), http.MethodPost, f.url(registryName, "/v2/app/blobs/uploads/"), http.NoBody, prepare)
		want(t, resp, http.StatusAccepted, body)
		if at := resp.Header.Get("Location"); !strings.HasPrefix(at, f.url(registryName, "/v2/app/blobs/uploads/")) {
			t.Errorf("%s: Location %s, want it below %s", name, at, f.url(registryName, ""))
		}
	}
}

// checkTokens wants who has not logged in sent to the token service at the proxy's address,
// whatever the client says of itself, and a token from there.
func checkTokens(t *testing.T, f *front) {
	client, realm := f.client("127.0.0.1", true), f.url(registryName, "/auth/token")
	for _, lie := range []string{"", "evil.example.org"} {
		resp, body := ask(t, client, http.MethodGet, f.url(registryName, "/v2/secret/manifests/v1"), nil, header("X-Forwarded-Host", lie))
		want(t, resp, http.StatusUnauthorized, body)
		if got := resp.Header.Get("WWW-Authenticate"); !strings.HasPrefix(got, `Bearer realm="`+realm+`",`) {
			t.Errorf("X-Forwarded-Host %q: %s, want the realm %s", lie, got, realm)
		}
	}
	resp, body := ask(t, client, http.MethodGet, realm+"?service=registry&scope=repository:app:pull", nil, nil)
	want(t, resp, http.StatusOK, body)
	if !strings.Contains(body, `"token":"`) {
		t.Errorf("no token: %s", body)
	}
	resp, body = ask(t, client, http.MethodPost, realm, strings.NewReader("grant_type=password&service=registry&username=a&password=wrong"), header("Content-Type", "application/x-www-form-urlencoded"))
	want(t, resp, http.StatusUnauthorized, body)
}

// checkChunks uploads in chunks, each to where the answer before it says.
func checkChunks(t *testing.T, f *front) {
	client, sum := f.client("127.0.0.1", false), sha256.New()
	resp, body := ask(t, client, http.MethodPost, f.url(registryName, "/v2/app/blobs/uploads/"), http.NoBody, nil)
	want(t, resp, http.StatusAccepted, body)
	const size, chunks = 1 << 20, 4
	for i := range chunks {
		chunk := bytes.Repeat([]byte{byte(i)}, size)
		sum.Write(chunk)
		resp, body = ask(t, client, http.MethodPatch, resp.Header.Get("Location"), bytes.NewReader(chunk), header("Content-Range", fmt.Sprintf("%d-%d", i*size, (i+1)*size-1)))
		want(t, resp, http.StatusAccepted, body)
		if got := resp.Header.Get("Range"); got != fmt.Sprintf("0-%d", (i+1)*size-1) {
			t.Errorf("after chunk %d: Range %s", i, got)
		}
	}
	digest := fmt.Sprintf("sha256:%x", sum.Sum(nil))
	resp, body = ask(t, client, http.MethodPut, resp.Header.Get("Location")+"&digest="+digest, http.NoBody, nil)
	want(t, resp, http.StatusCreated, body)
	if at := resp.Header.Get("Location"); at != f.url(registryName, "/v2/app/blobs/"+digest) {
		t.Errorf("Location %s", at)
	}
	resp, body = ask(t, client, http.MethodGet, f.url(registryName, "/v2/app/blobs/"+digest), nil, header("Range", "bytes=1048575-1048576"))
	want(t, resp, http.StatusPartialContent, "")
	if body != "\x00\x01" {
		t.Errorf("bytes over the edge of two chunks: %q", body)
	}
}

// checkLargeLayer pushes 256 MiB in one stream without a length, as docker does,
// and pulls them. The registry has to have bytes while the client still sends.
func checkLargeLayer(t *testing.T, f *front) {
	const size = 256 << 20
	client := f.client("127.0.0.1", true)
	resp, body := ask(t, client, http.MethodPost, f.url(registryName, "/v2/big/blobs/uploads/"), http.NoBody, nil)
	want(t, resp, http.StatusAccepted, body)
	layer := &layer{left: size, sum: sha256.New(), pause: size / 2, arrived: func() bool { return stored(t, f.images) > size/4 }}
	resp, body = ask(t, client, http.MethodPatch, resp.Header.Get("Location"), layer, nil)
	want(t, resp, http.StatusAccepted, body)
	if layer.held {
		t.Error("the proxy keeps a layer to itself until it is whole")
	}
	digest := fmt.Sprintf("sha256:%x", layer.sum.Sum(nil))
	resp, body = ask(t, client, http.MethodPut, resp.Header.Get("Location")+"&digest="+digest, http.NoBody, nil)
	want(t, resp, http.StatusCreated, body)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url(registryName, "/v2/big/blobs/"+digest), http.NoBody)
	must(t, err)
	pulled, err := client.Do(req)
	must(t, err)
	defer pulled.Body.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, pulled.Body)
	if got := fmt.Sprintf("sha256:%x", sum.Sum(nil)); err != nil || got != digest {
		t.Errorf("%d bytes came back with the digest %s, want %s (%v)", n, got, digest, err)
	}
}

// layer is a stream of bytes that waits half-way until some have arrived.
type layer struct {
	left    int
	sum     hash.Hash
	pause   int // at so many bytes left
	arrived func() bool
	held    bool // nothing arrived in time
}

func (l *layer) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	if l.left <= l.pause && l.pause > 0 {
		l.pause = 0
		l.held = true
		for end := time.Now().Add(10 * time.Second); l.held && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			l.held = !l.arrived()
		}
	}
	p = p[:min(len(p), l.left)]
	for i := range p {
		p[i] = byte((l.left - i) >> 10)
	}
	l.left -= len(p)
	l.sum.Write(p)
	return len(p), nil
}

// stored is how many bytes are below a directory.
func stored(t *testing.T, dir string) (total int64) {
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // what is gone meanwhile does not count
		}
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return total
}
