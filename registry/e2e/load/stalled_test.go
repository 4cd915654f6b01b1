package load

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
)

// maxStalled bounds the memory of the registry while 200 connections of one client don't read
// their large answers.
const maxStalled = 192 << 20

// Connections that ask for large answers and read nothing cost bounded memory: beyond its share
// the client gets 503. Small answers are served meanwhile, and so are large ones to others.
func TestFull_StalledReaders_CostLittleMemory(t *testing.T) {
	p := harness.StartRegistry(t, t.TempDir())
	small := harness.NewImage(t, 81, 2, 10_000)
	small.Push(t, p.Addr, "app", "small")
	for i := range 60 { // 4 MB of annotations
		content := harness.JSON(t, map[string]any{
			"schemaVersion": 2, "mediaType": harness.TypeManifest, "artifactType": "application/vnd.example.report",
			"config": small.Add(harness.TypeConfig, []byte("{}")), "layers": []harness.Descriptor{},
			"subject":     harness.Descriptor{MediaType: harness.TypeManifest, Digest: small.Manifest, Size: len(small.Blobs[small.Manifest])},
			"annotations": map[string]string{"report": fmt.Sprint(i) + strings.Repeat("x", 68_000)},
		})
		if i == 0 {
			harness.PushBlob(t, p.Addr, "app", harness.DigestOf([]byte("{}")), []byte("{}"))
		}
		harness.PushManifest(t, p.Addr, "app", harness.DigestOf(content), content)
	}
	listing := "/v2/app/referrers/" + small.Manifest
	var large []string
	for i := range 10 {
		content := harness.JSON(t, map[string]any{
			"schemaVersion": 2, "mediaType": harness.TypeManifest,
			"config": small.Add(harness.TypeConfig, []byte("{}")), "layers": []harness.Descriptor{},
			"annotations": map[string]string{"pad": fmt.Sprint(i) + strings.Repeat("y", 4_000_000)},
		})
		harness.PushManifest(t, p.Addr, "app", fmt.Sprintf("large%d", i), content)
		large = append(large, "/v2/app/manifests/"+harness.DigestOf(content))
	}
	want := map[string]int64{}
	for _, path := range append([]string{listing}, large...) {
		want[path] = size(t, "127.0.0.1", p.Addr, path)
	}
	t.Logf("before: %d MiB; the listing has %d bytes", p.Peak(t)>>20, want[listing])

	p.ResetPeak(t)
	var begun sync.WaitGroup
	for i := range 100 {
		begun.Go(func() { stall(t, p.Addr, listing) })
		begun.Go(func() { stall(t, p.Addr, large[i%len(large)]) })
	}
	begun.Wait()
	for _, path := range []string{"/v2/app/manifests/small", "/v2/app/blobs/" + harness.DigestOf([]byte("{}"))} {
		began := time.Now()
		n := size(t, "127.0.0.1", p.Addr, path)
		if took := time.Since(began); took > 30*time.Second || // the others are cut off after a minute
			want[path] != 0 && n != want[path] {
			t.Errorf("GET %s: %d bytes after %v, want %d", path, n, took, want[path])
		}
	}
	if n := size(t, "127.0.0.2", p.Addr, listing); n != want[listing] {
		t.Errorf("another client got %d bytes of the listing, want %d", n, want[listing])
	}
	t.Logf("200 stalled readers: peak of %d MiB", p.Peak(t)>>20)
	if peak := p.Peak(t); peak > maxStalled {
		t.Errorf("the registry held %d MiB, more than %d", peak>>20, maxStalled>>20)
	}
}

// A client that is cut off because it takes nothing is told apart in the log from
// one that hangs up.
func TestStalledReader_LogSaysSo(t *testing.T) {
	p := harness.StartRegistry(t, t.TempDir(), "REGISTRY_LOG_LEVEL=info", "REGISTRY_SLIPWAY_HTTP_STALLTIMEOUT=1s")
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	harness.PushBlob(t, p.Addr, "app", harness.DigestOf(big), big)
	stall(t, p.Addr, "/v2/app/blobs/"+harness.DigestOf(big))
	const want = `msg="the client stalled and was cut off"`
	harness.Eventually(t, "the log has "+want, func() bool { return strings.Contains(p.Output(), want) })
	if strings.Contains(p.Output(), "the client went away") {
		t.Errorf("log:\n%s", p.Output())
	}
}

// size reads an answer to a client with an address and returns how many bytes it had.
func size(t *testing.T, client, addr, path string) int64 {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	c := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	resp, err := c.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %s, %v", path, resp.Status, err)
	}
	return n
}

// stall asks, waits until the answer begins, which may be 503, and reads no more of it.
func stall(t *testing.T, addr, path string) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\n\r\n", path, addr, harness.TypeManifest)
	head := make([]byte, len("HTTP/1.1 200"))
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadFull(c, head); err != nil || string(head) != "HTTP/1.1 200" && string(head) != "HTTP/1.1 503" {
		t.Errorf("GET %s: %q, %v", path, head, err)
	}
}
