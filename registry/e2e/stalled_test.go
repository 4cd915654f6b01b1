package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// maxStalled is what the registry may hold in memory while 200 clients do not read
// their large answers: it holds 90 to 105 MiB, also on a busy machine.
const maxStalled = 128 << 20

// Clients that ask for large answers and read nothing of them cost little memory,
// and others are served meanwhile, the same answers included.
func TestStalledReaders_CostLittleMemory(t *testing.T) {
	p := startSlipway(t, t.TempDir())
	small := newImage(t, 81, 2, 10_000)
	small.push(t, p.addr, "app", "small")
	for i := range 60 { // 4 MB of annotations
		content := mustJSON(t, map[string]any{
			"schemaVersion": 2, "mediaType": typeManifest, "artifactType": "application/vnd.example.report",
			"config": small.add(typeConfig, []byte("{}")), "layers": []descriptor{},
			"subject":     descriptor{MediaType: typeManifest, Digest: small.manifest, Size: len(small.blobs[small.manifest])},
			"annotations": map[string]string{"report": fmt.Sprint(i) + strings.Repeat("x", 68_000)},
		})
		if i == 0 {
			pushBlob(t, p.addr, "app", digestOf([]byte("{}")), []byte("{}"))
		}
		pushManifest(t, p.addr, "app", digestOf(content), content)
	}
	listing := "/v2/app/referrers/" + small.manifest
	var large []string
	for i := range 10 {
		content := mustJSON(t, map[string]any{
			"schemaVersion": 2, "mediaType": typeManifest,
			"config": small.add(typeConfig, []byte("{}")), "layers": []descriptor{},
			"annotations": map[string]string{"pad": fmt.Sprint(i) + strings.Repeat("y", 4_000_000)},
		})
		pushManifest(t, p.addr, "app", fmt.Sprintf("large%d", i), content)
		large = append(large, "/v2/app/manifests/"+digestOf(content))
	}
	want := map[string]int64{}
	for _, path := range append([]string{listing}, large...) {
		want[path] = size(t, p.addr, path)
	}
	t.Logf("before: %d MiB; the listing has %d bytes", p.peak(t)>>20, want[listing])

	p.resetPeak(t)
	var begun sync.WaitGroup
	for i := range 100 {
		begun.Go(func() { stall(t, p.addr, listing) })
		begun.Go(func() { stall(t, p.addr, large[i%len(large)]) })
	}
	begun.Wait()
	for _, path := range []string{"/v2/app/manifests/small", listing, large[0], "/v2/app/blobs/" + digestOf([]byte("{}"))} {
		began := time.Now()
		n := size(t, p.addr, path)
		if took := time.Since(began); took > 2*time.Second || want[path] != 0 && n != want[path] {
			t.Errorf("GET %s: %d bytes after %v, want %d", path, n, took, want[path])
		}
	}
	t.Logf("200 stalled readers: peak of %d MiB", p.peak(t)>>20)
	if peak := p.peak(t); peak > maxStalled {
		t.Errorf("the registry held %d MiB, more than %d", peak>>20, maxStalled>>20)
	}
}

// A client that is cut off because it takes nothing is told apart in the log from
// one that hangs up.
func TestStalledReader_LogSaysSo(t *testing.T) {
	p := startSlipway(t, t.TempDir(), "REGISTRY_LOG_LEVEL=info", "REGISTRY_SLIPWAY_HTTP_STALLTIMEOUT=1s")
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	pushBlob(t, p.addr, "app", digestOf(big), big)
	stall(t, p.addr, "/v2/app/blobs/"+digestOf(big))
	const want = `msg="the client stalled and was cut off"`
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(p.Output(), want); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s in\n%s", want, p.Output())
		}
	}
	if strings.Contains(p.Output(), "the client went away") {
		t.Errorf("log:\n%s", p.Output())
	}
}

// size reads an answer and returns how many bytes it had.
func size(t *testing.T, addr, path string) int64 {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	req.Header.Set("Accept", typeManifest)
	resp, err := http.DefaultClient.Do(req)
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

// stall asks, waits for the begin of the answer, and reads no more of it.
func stall(t *testing.T, addr, path string) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\n\r\n", path, addr, typeManifest)
	head := make([]byte, len("HTTP/1.1 200"))
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadFull(c, head); err != nil || string(head) != "HTTP/1.1 200" {
		t.Errorf("GET %s: %q, %v", path, head, err)
	}
}

// resetPeak makes peak begin anew.
func (p *process) resetPeak(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.ID()), []byte("5"), 0o600); err != nil {
		t.Fatal(err)
	}
}
