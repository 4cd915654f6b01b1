package proxy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/tools/harness"
)

// checkRegistry does what clients do through a proxy, whatever they say of
// themselves: every answer leads to where they came from.
func checkRegistry(t *testing.T, f *front) {
	client, uploads, realm := f.client("127.0.0.1", true), f.url(registryName, "/v2/app/blobs/uploads/"), f.url(registryName, "/auth/token")
	for header, lie := range map[string]string{"X-Nothing": "", "X-Forwarded-Host": "evil.example.org", "X-Forwarded-Proto": "http", "Forwarded": "proto=http;host=evil.example.org"} {
		resp, _ := ask(t, client, http.StatusAccepted, http.MethodPost, uploads, http.NoBody, harness.Header(header, lie))
		if at := resp.Header.Get("Location"); !strings.HasPrefix(at, uploads) {
			t.Errorf("%s %s: Location %s, want it below %s", header, lie, at, uploads)
		}
		resp, _ = ask(t, client, http.StatusUnauthorized, http.MethodGet, f.url(registryName, "/v2/secret/manifests/v1"), nil, harness.Header(header, lie))
		if got := resp.Header.Get("WWW-Authenticate"); !strings.HasPrefix(got, `Bearer realm="`+realm+`",`) {
			t.Errorf("%s %s: %s, want the realm %s", header, lie, got, realm)
		}
	}
	if resp, body := harness.Ask(t, client, http.MethodGet, realm+"?service=registry&scope=repository:app:pull", nil); !strings.Contains(body, `"token":"`) {
		t.Errorf("no token: %s %s", resp.Status, body)
	}
	for _, path := range []string{"/debug/health", "/metrics", "/debug/pprof/", "/uix"} {
		ask(t, client, http.StatusNotFound, http.MethodGet, f.url(registryName, path), nil)
	}
	for _, path := range []string{"/", "/ui/"} {
		ask(t, client, http.StatusOK, http.MethodGet, f.url(registryName, path), nil)
	}
	t.Run("large layer", func(t *testing.T) { checkLargeLayer(t, f, client) })
}

// checkLargeLayer pushes 256 MiB in one stream without a length, as docker does,
// and pulls them. The registry has to have bytes while the client still sends.
func checkLargeLayer(t *testing.T, f *front, client *http.Client) {
	resp, _ := ask(t, client, http.StatusAccepted, http.MethodPost, f.url(registryName, "/v2/big/blobs/uploads/"), http.NoBody)
	const half = 128 << 20
	chunk, sum := bytes.Repeat([]byte("a layer "), 1<<20), sha256.New()
	r, w := io.Pipe()
	send := func() (err error) {
		for sent := 0; err == nil && sent < half; sent += len(chunk) {
			_, err = w.Write(chunk)
		}
		return err
	}
	arrived := 0
	go func() {
		err := send()
		for end := time.Now().Add(30 * time.Second); err == nil && arrived < half/2 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			out, _ := exec.Command("du", "-sb", f.images).Output() // what is gone meanwhile does not count
			_, _ = fmt.Sscan(string(out), &arrived)
		}
		w.CloseWithError(send())
	}()
	resp, _ = ask(t, client, http.StatusAccepted, http.MethodPatch, resp.Header.Get("Location"), io.TeeReader(r, sum))
	if arrived < half/2 {
		t.Error("the proxy keeps a layer to itself until it is whole")
	}
	digest := fmt.Sprintf("sha256:%x", sum.Sum(nil))
	ask(t, client, http.StatusCreated, http.MethodPut, resp.Header.Get("Location")+"&digest="+digest, http.NoBody)
	pulled, err := client.Get(f.url(registryName, "/v2/big/blobs/"+digest))
	if err != nil {
		t.Fatal(err)
	}
	defer pulled.Body.Close()
	sum.Reset()
	n, err := io.Copy(sum, pulled.Body)
	if got := fmt.Sprintf("sha256:%x", sum.Sum(nil)); err != nil || got != digest {
		t.Errorf("%d bytes came back with the digest %s, want %s (%v)", n, got, digest, err)
	}
}

// checkRelay does what senders and people do through a proxy, and looks into the
// proxy's log.
func checkRelay(t *testing.T, f *front) {
	client, messages, applications := f.client("127.0.0.1", true), f.url(relayName, "/message"), f.url(relayName, "/application")
	admin, asJSON := func(r *http.Request) { r.SetBasicAuth("admin", adminPassword) }, harness.Header("Content-Type", "application/json")
	_, body := ask(t, client, http.StatusCreated, http.MethodPost, applications, strings.NewReader(`{"name": "backup"}`), admin, asJSON)
	var app struct{ Token string }
	if err := json.Unmarshal([]byte(body), &app); err != nil {
		t.Fatal(err)
	}
	inQuery := func(r *http.Request) { r.URL.RawQuery = "token=" + app.Token }
	for _, authenticate := range []func(*http.Request){inQuery, harness.Header("X-Gotify-Key", app.Token), harness.Header("Authorization", "Bearer "+app.Token)} {
		ask(t, client, http.StatusOK, http.MethodPost, messages, strings.NewReader(`{"message": "hello"}`), asJSON, authenticate)
	}
	ask(t, client, http.StatusRequestEntityTooLarge, http.MethodPost, messages, strings.NewReader(`{"message": "`+strings.Repeat("x", 3<<20)+`"}`), harness.Header("X-Gotify-Key", app.Token))
	for _, path := range []string{"/metrics", "/metrics/", "//metrics", "/%6Detrics", "/metrics//"} {
		ask(t, client, http.StatusNotFound, http.MethodGet, f.url(relayName, path), nil)
	}

	checkStream(t, f, app.Token)

	// A client that guesses passwords from one address and writes another one into each
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
	ask(t, f.client("127.0.0.3", false), http.StatusOK, http.MethodGet, applications, nil, admin)

	var log string
	for end := time.Now().Add(30 * time.Second); !strings.Contains(log, "/message") && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		log = harness.Read(t, filepath.Join(f.dir, "relay.log"))
	}
	if !strings.Contains(log, "/message") || strings.Contains(log, app.Token) {
		t.Errorf("the log has no message, or it has the token:\n%s", log)
	}
}

// checkStream opens the WebSocket that Gotify's apps read.
func checkStream(t *testing.T, f *front, sender string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url(relayName, "/stream"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("admin", adminPassword)
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
	} {
		req.Header.Set(name, value)
	}
	resp, err := f.client("127.0.0.1", false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("GET /stream: %s", resp.Status)
	}
	ask(t, f.client("127.0.0.1", true), http.StatusOK, http.MethodPost, f.url(relayName, "/message"), strings.NewReader("message=streamed"),
		harness.Header("X-Gotify-Key", sender), harness.Header("Content-Type", "application/x-www-form-urlencoded"))
	got, text := make([]byte, 4<<10), ""
	for !strings.Contains(text, "streamed") {
		n, err := resp.Body.Read(got)
		if text += string(got[:n]); err != nil {
			t.Fatalf("the stream ends after %q: %v", text, err)
		}
	}
}
