package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"slipway/registry/e2e/harness"
)

const (
	// maxMirrorResident bounds the memory of a mirror.
	maxMirrorResident = 96 << 20
	// maxMirrorDisk bounds what the test writes: layers above it are pulled by several clients each.
	maxMirrorDisk = 8 << 30
)

// Sixty-four clients pull cold layers at the same time, and memory stays small: what comes
// waits on the disk. The layers are small here and have 512 MiB in `make soak`.
func TestFull_Mirror_Memory(t *testing.T) {
	size := int64(8 << 20)
	if n, err := strconv.ParseInt(os.Getenv("SLIPWAY_SOAK_LAYER"), 10, 64); err == nil {
		size = n << 20
	}
	const clients = 64
	layers := make([]harness.Stream, min(clients, max(1, maxMirrorDisk/size)))
	byPath := map[string]harness.Stream{}
	for i := range layers {
		layers[i] = harness.Pattern(int64(i), size)
		byPath["/v2/app/blobs/"+layers[i].Digest] = layers[i]
	}
	var asked atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		layer, ok := byPath[r.URL.Path]
		if !ok || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		asked.Add(1)
		w.Header().Set("Content-Length", strconv.FormatInt(layer.Size, 10))
		io.Copy(w, layer.Reader())
	}))
	t.Cleanup(up.Close)
	for name, on := range allPlaces {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			mirror := on(t, strings.TrimPrefix(up.URL, "http://")).start(t)
			var all sync.WaitGroup
			for i := range clients {
				all.Go(func() {
					layer := layers[i%len(layers)]
					resp, err := http.Get("http://" + mirror.Addr + "/v2/app/blobs/" + layer.Digest)
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					h := sha256.New()
					if n, err := io.Copy(h, resp.Body); err != nil || "sha256:"+hex.EncodeToString(h.Sum(nil)) != layer.Digest {
						t.Errorf("%s: %s, %d bytes, %v", layer.Digest, resp.Status, n, err)
					}
				})
			}
			all.Wait()
			peak := mirror.Peak(t)
			t.Logf("%d clients, %d layers of %d MiB, peak of %d MiB", clients, len(layers), size>>20, peak>>20)
			if peak > maxMirrorResident {
				t.Errorf("the mirror held %d MiB, more than %d", peak>>20, maxMirrorResident>>20)
			}
			if n := asked.Load(); n != int64(len(layers)) {
				t.Errorf("the upstream was asked %d times for %d layers", n, len(layers))
			}
		})
	}
}
