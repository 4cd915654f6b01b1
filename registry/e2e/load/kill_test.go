package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/e2e/harness"
	"slipway/shared/programtest"
)

// What was acknowledged is there after kill -9, and what was not is either
// there whole or not at all.
func TestKill(t *testing.T) { kill(t, 6) }

// `make soak` asks for more kills.
func TestFull_Kill(t *testing.T) {
	kills := 100
	if n, err := strconv.Atoi(os.Getenv("SLIPWAY_SOAK_KILLS")); err == nil {
		kills = n
	}
	kill(t, kills)
}

func kill(t *testing.T, kills int) {
	t.Helper()
	root := t.TempDir()
	addr := programtest.FreeAddr(t)
	ledgers := make([]*ledger, 4)
	for i := range ledgers {
		ledgers[i] = newLedger(t, fmt.Sprintf("crash/writer-%d", i), fmt.Sprintf("crash/writer-%d", (i+1)%len(ledgers)), uint64(i))
	}
	acked := func() (n int64) {
		for _, l := range ledgers {
			n += l.acked.Load()
		}
		return n
	}
	harness.Start(t, addr, harness.RegistryCommand(addr, root)).Kill() // makes the tree
	for round := range kills {
		p := harness.Start(t, addr, harness.RegistryCommand(addr, root))
		ctx, cancel := context.WithCancel(t.Context())
		before := acked()
		var writers sync.WaitGroup
		for _, l := range ledgers {
			writers.Go(func() { l.write(ctx, addr) })
		}
		// A busy machine may need long for the first operation of a server.
		harness.Eventually(t, "an operation is acknowledged", func() bool { return acked() > before })
		time.Sleep(time.Duration(rand.IntN(90)) * time.Millisecond)
		p.Kill()
		cancel()
		writers.Wait()
		if round%20 == 19 || round == kills-1 {
			p := harness.Start(t, addr, harness.RegistryCommand(addr, root))
			for _, l := range ledgers {
				l.verify(t, addr)
			}
			p.Kill()
		}
		if t.Failed() {
			t.Fatalf("after kill %d", round+1)
		}
	}
	t.Logf("%d kills, %d acknowledged operations", kills, acked())

	// What the kills left behind goes with a collection and the purge.
	harness.CollectGarbage(t, root)
	p := harness.Start(t, addr, harness.RegistryCommand(addr, root, `REGISTRY_STORAGE_MAINTENANCE_UPLOADPURGING={enabled: true, age: 1ms, interval: 100ms, dryrun: false}`))
	deadline := time.Now().Add(time.Minute)
	for len(harness.Debris(t, root)) > 0 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	if left := harness.Debris(t, root); len(left) > 0 {
		t.Errorf("after the purge there are still %d files of dead uploads, such as %s", len(left), left[0])
	}
	for _, l := range ledgers {
		l.verify(t, addr)
	}
	p.Kill()
}

// ledger is one writer's account of what it was promised. The writer is alone
// in its repository, so that each answer has one meaning.
type ledger struct {
	t           *testing.T
	repo, other string // other is mounted from
	rnd         *rand.Rand
	acked       atomic.Int64
	manifests   map[string][]byte          // acknowledged and not deleted
	doubtful    map[string][]byte          // manifests whose PUT or DELETE got no answer
	tags        map[string]map[string]bool // tag → digests it may point at; "" = may be absent
}

func newLedger(t *testing.T, repo, other string, seed uint64) *ledger {
	return &ledger{
		t: t, repo: repo, other: other, rnd: rand.New(rand.NewPCG(seed, 1)),
		manifests: map[string][]byte{}, doubtful: map[string][]byte{}, tags: map[string]map[string]bool{},
	}
}

func (l *ledger) url(addr, kind, ref string) string {
	return "http://" + addr + "/v2/" + l.repo + "/" + kind + "/" + ref
}

// write does one operation after the other until the server dies.
func (l *ledger) write(ctx context.Context, addr string) {
	for ctx.Err() == nil {
		var err error
		switch n := l.rnd.IntN(10); {
		case n < 6 || len(l.manifests) == 0:
			err = l.pushImage(ctx, addr)
		case n < 8:
			err = l.retag(ctx, addr)
		default:
			err = l.delete(ctx, addr)
		}
		if err != nil {
			return
		}
	}
}

func (l *ledger) pushImage(ctx context.Context, addr string) error {
	img := &harness.Image{Blobs: map[string][]byte{}}
	layer := img.Add(harness.TypeLayer, l.random(1+l.rnd.IntN(50_000)))
	config := img.Add(harness.TypeConfig, fmt.Appendf(nil, `{"architecture":"amd64","os":"linux","n":%d}`, l.rnd.Uint64()))
	for _, d := range []harness.Descriptor{layer, config} {
		if err := l.pushBlob(ctx, addr, img.Blobs[d.Digest]); err != nil {
			return err
		}
	}
	return l.putManifest(ctx, addr, l.tag(), harness.JSON(l.t, map[string]any{
		"schemaVersion": 2, "mediaType": harness.TypeManifest, "config": config, "layers": []harness.Descriptor{layer},
	}))
}

func (l *ledger) random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(l.rnd.Uint32())
	}
	return b
}

func (l *ledger) tag() string { return fmt.Sprintf("t%d", l.rnd.IntN(5)) }

func (l *ledger) pushBlob(ctx context.Context, addr string, b []byte) error {
	digest := harness.DigestOf(b)
	query := ""
	if l.rnd.IntN(4) == 0 {
		query = "?mount=" + digest + "&from=" + l.other
	}
	resp, err := l.do(ctx, http.MethodPost, l.url(addr, "blobs", "uploads/"+query), "", nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("POST: %s", resp.Status)
	}
	location := harness.AbsoluteURL(l.t, addr, resp.Header.Get("Location"))
	if l.rnd.IntN(2) == 0 {
		half := len(b) / 2
		resp, err = l.do(ctx, http.MethodPatch, location, "application/octet-stream", b[:half])
		if err != nil {
			return err
		}
		location, b = harness.AbsoluteURL(l.t, addr, resp.Header.Get("Location")), b[half:]
	}
	resp, err = l.do(ctx, http.MethodPut, harness.WithQuery(l.t, location, "digest", digest), "", b)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("PUT: %s", resp.Status)
	}
	l.acked.Add(1)
	return nil
}

func (l *ledger) putManifest(ctx context.Context, addr, tag string, b []byte) error {
	digest := harness.DigestOf(b)
	if l.tags[tag] == nil {
		l.tags[tag] = map[string]bool{"": true}
	}
	l.tags[tag][digest] = true
	l.doubtful[digest] = b
	resp, err := l.do(ctx, http.MethodPut, l.url(addr, "manifests", tag), harness.TypeManifest, b)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("PUT manifest: %s", resp.Status)
	}
	l.acked.Add(1)
	delete(l.doubtful, digest)
	l.manifests[digest] = b
	l.tags[tag] = map[string]bool{digest: true}
	return nil
}

func (l *ledger) retag(ctx context.Context, addr string) error {
	for _, b := range l.manifests {
		return l.putManifest(ctx, addr, l.tag(), b)
	}
	return nil
}

func (l *ledger) delete(ctx context.Context, addr string) error {
	for digest, b := range l.manifests {
		delete(l.manifests, digest)
		l.doubtful[digest] = b
		for _, may := range l.tags {
			if may[digest] {
				may[""] = true
			}
		}
		resp, err := l.do(ctx, http.MethodDelete, l.url(addr, "manifests", digest), "", nil)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusAccepted {
			return fmt.Errorf("DELETE: %s", resp.Status)
		}
		l.acked.Add(1)
		delete(l.doubtful, digest)
		for _, may := range l.tags {
			delete(may, digest)
		}
		return nil
	}
	return nil
}

func (l *ledger) do(ctx context.Context, method, url, contentType string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

// verify holds the registry against the ledger.
func (l *ledger) verify(t *testing.T, addr string) {
	t.Helper()
	for digest, want := range l.manifests {
		resp, got := harness.Fetch(t, "GET", l.url(addr, "manifests", digest), harness.AcceptAll, nil)
		if resp.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
			t.Errorf("%s: acknowledged manifest %s: %s", l.repo, digest, resp.Status)
			continue
		}
		l.whole(t, addr, got)
	}
	for digest, want := range l.doubtful {
		resp, got := harness.Fetch(t, "GET", l.url(addr, "manifests", digest), harness.AcceptAll, nil)
		switch {
		case resp.StatusCode == http.StatusNotFound:
		case resp.StatusCode == http.StatusOK && bytes.Equal(got, want):
			l.whole(t, addr, got)
		default:
			t.Errorf("%s: manifest %s that was in flight: %s, %d bytes; want all or nothing", l.repo, digest, resp.Status, len(got))
		}
	}
	for tag, may := range l.tags {
		resp, got := harness.Fetch(t, "GET", l.url(addr, "manifests", tag), harness.AcceptAll, nil)
		digest := ""
		if resp.StatusCode == http.StatusOK {
			digest = harness.DigestOf(got)
			l.whole(t, addr, got)
		}
		if !may[digest] {
			t.Errorf("%s:%s is %q (%s), want one of %v", l.repo, tag, digest, resp.Status, may)
		}
	}
}

// whole fails unless all that the manifest names is there and verifies.
func (l *ledger) whole(t *testing.T, addr string, manifest []byte) {
	t.Helper()
	var m struct {
		Config harness.Descriptor   `json:"config"`
		Layers []harness.Descriptor `json:"layers"`
	}
	if err := json.Unmarshal(manifest, &m); err != nil {
		t.Fatal(err)
	}
	for _, d := range append(m.Layers, m.Config) {
		resp, got := harness.Fetch(t, "GET", l.url(addr, "blobs", d.Digest), nil, nil)
		if resp.StatusCode != http.StatusOK || harness.DigestOf(got) != d.Digest {
			t.Errorf("%s: blob %s of a visible manifest: %s, %d bytes", l.repo, d.Digest, resp.Status, len(got))
		}
	}
}
