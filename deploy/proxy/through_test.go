package proxy_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/deploy/internal/harness"
)

// checkRegistry does what clients do through a proxy, whatever they say of
// themselves: every answer leads to where they came from.
func checkRegistry(t *testing.T, f *front) {
	client, uploads, realm := f.client("127.0.0.1", true), f.url(registryName, "/v2/app/blobs/uploads/"), f.url(registryName, "/auth/token")
	for header, lie := range map[string]string{"X-Nothing": "", "X-Forwarded-Host": "evil.example.org", "X-Forwarded-Proto": "http", "Forwarded": "proto=http;host=evil.example.org"} {
		resp, body := harness.Ask(t, client, http.MethodPost, uploads, http.NoBody, harness.Header(header, lie))
		want(t, resp, http.StatusAccepted, body)
		if at := resp.Header.Get("Location"); !strings.HasPrefix(at, uploads) {
			t.Errorf("%s %s: Location %s, want it below %s", header, lie, at, uploads)
		}
		resp, body = harness.Ask(t, client, http.MethodGet, f.url(registryName, "/v2/secret/manifests/v1"), nil, harness.Header(header, lie))
		want(t, resp, http.StatusUnauthorized, body)
		if got := resp.Header.Get("WWW-Authenticate"); !strings.HasPrefix(got, `Bearer realm="`+realm+`",`) {
			t.Errorf("%s %s: %s, want the realm %s", header, lie, got, realm)
		}
	}
	if resp, body := harness.Ask(t, client, http.MethodGet, realm+"?service=registry&scope=repository:app:pull", nil); !strings.Contains(body, `"token":"`) {
		t.Errorf("no token: %s %s", resp.Status, body)
	}
	for _, path := range []string{"/debug/health", "/metrics", "/debug/pprof/", "/"} {
		resp, body := harness.Ask(t, client, http.MethodGet, f.url(registryName, path), nil)
		want(t, resp, http.StatusNotFound, body)
	}
	t.Run("large layer", func(t *testing.T) { checkLargeLayer(t, f, client) })
}

// checkLargeLayer pushes 256 MiB in one stream without a length, as docker does,
// and pulls them. The registry has to have bytes while the client still sends.
func checkLargeLayer(t *testing.T, f *front, client *http.Client) {
	const size = 256 << 20
	resp, body := harness.Ask(t, client, http.MethodPost, f.url(registryName, "/v2/big/blobs/uploads/"), http.NoBody)
	want(t, resp, http.StatusAccepted, body)
	layer := &layer{left: size, sum: sha256.New(), pause: size / 2, arrived: func() bool { return stored(f.images) > size/4 }}
	resp, body = harness.Ask(t, client, http.MethodPatch, resp.Header.Get("Location"), layer)
	want(t, resp, http.StatusAccepted, body)
	if layer.held {
		t.Error("the proxy keeps a layer to itself until it is whole")
	}
	digest := fmt.Sprintf("sha256:%x", layer.sum.Sum(nil))
	resp, body = harness.Ask(t, client, http.MethodPut, resp.Header.Get("Location")+"&digest="+digest, http.NoBody)
	want(t, resp, http.StatusCreated, body)

	pulled, err := client.Get(f.url(registryName, "/v2/big/blobs/"+digest))
	if err != nil {
		t.Fatal(err)
	}
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
		for end := time.Now().Add(30 * time.Second); l.held && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
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

// stored is how many bytes are below a directory. What is gone meanwhile does not
// count.
func stored(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}

// checkRelay does what senders and people do through a proxy, and looks into the
// proxy's log.
func checkRelay(t *testing.T, f *front) {
	client, messages, applications := f.client("127.0.0.1", true), f.url(relayName, "/message"), f.url(relayName, "/application")
	admin, asJSON := func(r *http.Request) { r.SetBasicAuth("admin", adminPassword) }, harness.Header("Content-Type", "application/json")
	resp, body := harness.Ask(t, client, http.MethodPost, applications, strings.NewReader(`{"name": "backup"}`), admin, asJSON)
	want(t, resp, http.StatusCreated, body)
	var app struct{ Token string }
	if err := json.Unmarshal([]byte(body), &app); err != nil {
		t.Fatal(err)
	}
	inQuery := func(r *http.Request) { r.URL.RawQuery = "token=" + app.Token }
	for _, authenticate := range []func(*http.Request){inQuery, harness.Header("X-Gotify-Key", app.Token), harness.Header("Authorization", "Bearer "+app.Token)} {
		resp, body := harness.Ask(t, client, http.MethodPost, messages, strings.NewReader(`{"message": "hello"}`), asJSON, authenticate)
		want(t, resp, http.StatusOK, body)
	}
	resp, body = harness.Ask(t, client, http.MethodPost, messages, strings.NewReader(`{"message": "`+strings.Repeat("x", 3<<20)+`"}`), harness.Header("X-Gotify-Key", app.Token))
	want(t, resp, http.StatusRequestEntityTooLarge, body)
	for _, path := range []string{"/metrics", "/metrics/", "//metrics", "/%6Detrics", "/metrics//"} {
		resp, body := harness.Ask(t, client, http.MethodGet, f.url(relayName, path), nil)
		want(t, resp, http.StatusNotFound, body)
	}

	// Who guesses passwords from one address and writes another one into each
	// request is slowed down, and nobody else is.
	guesser, slowed := f.client("127.0.0.2", false), false
	for i := 0; i < 40 && !slowed; i++ {
		resp, _ := harness.Ask(t, guesser, http.MethodGet, applications, nil, harness.Header("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i)), func(r *http.Request) {
			r.SetBasicAuth("admin", fmt.Sprint("guess ", i))
		})
		slowed = resp.StatusCode == http.StatusTooManyRequests
	}
	if !slowed {
		t.Error("one that guesses is not slowed down: the relay takes its word for its address")
	}
	resp, body = harness.Ask(t, f.client("127.0.0.3", false), http.MethodGet, applications, nil, admin)
	want(t, resp, http.StatusOK, body)

	var log string
	for end := time.Now().Add(30 * time.Second); !strings.Contains(log, "/message") && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		log = harness.Read(t, filepath.Join(f.dir, "relay.log"))
	}
	if !strings.Contains(log, "/message") || strings.Contains(log, app.Token) {
		t.Errorf("the log has no message, or it has the token:\n%s", log)
	}
}
