package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/memory"
	"slipway/registry/internal/upstream"
)

// A disk that is full when the blob has come: the client has it, and nothing is left.
func TestBlob_FullDiskAtTheEnd(t *testing.T) {
	content := noise(8, 500_000)
	full := &fullStore{Store: memory.New(), room: 1 << 30}
	w := newWorld(t, func(_ *Options, _ *Source, ro *registry.Options, _ *upstream.Options) { ro.Store = full })
	w.push("app", "v1", content)
	step := make(chan struct{}, 2)
	w.front.fail(slowly(content, 2, step))
	step <- struct{}{}
	resp, err := http.Get(w.url + blobPath(content))
	check(t, err)
	defer resp.Body.Close()
	full.mu.Lock()
	full.full = true
	full.mu.Unlock()
	step <- struct{}{}
	if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(body, content) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	w.settle()
	w.cache.work.Wait()
	if _, err := w.reg.Cached("hub/app").StatBlob(t.Context(), oci.SHA256.FromBytes(content)); err == nil {
		t.Error("it was stored")
	}
}

// Nobody joins a transfer whose upload the store holds: who opens that waits as long as the store does.
func TestFlight_StuckTakesNobody(t *testing.T) {
	w := newWorld(t)
	f := newFlight(w.cache, w.source, w.reg.Cached("hub/app"), blobKey{"hub/app", oci.SHA256.FromBytes(nil)})
	f.placed(errStuck)
	if _, ok := f.attach(t.Context()); ok {
		t.Error("it takes a reader")
	}
}

// A store that does not end a commit keeps nobody from what he is pulling, and nobody waits
// longer than cachewritetimeout; what cannot be stored is removed once the store answers.
func TestBlob_CommitHangs(t *testing.T) {
	for _, row := range []struct {
		name  string
		heeds bool // its deadline
	}{{"until its deadline", true}, {"beyond its deadline", false}} {
		t.Run(row.name, func(t *testing.T) {
			release, hangs := make(chan struct{}), make(chan struct{}, 10)
			full := &fullStore{Store: memory.New(), room: 1 << 30}
			full.hang = func(ctx context.Context) {
				hangs <- struct{}{}
				if row.heeds {
					<-ctx.Done()
				} else {
					<-release
				}
			}
			w := newWorld(t, func(o *Options, _ *Source, ro *registry.Options, _ *upstream.Options) {
				ro.Store, o.CommitTimeout = full, 100*time.Millisecond
			})
			small, large := noise(120, 1000), noise(121, 1_000_000)
			w.push("app", "v1", small, large)
			var reading []*http.Response
			for _, content := range [][]byte{small, large} {
				resp, err := http.Get(w.url + blobPath(content))
				check(t, err)
				defer resp.Body.Close()
				reading = append(reading, resp)
				<-hangs
			}
			if body, err := io.ReadAll(reading[0].Body); err != nil || !bytes.Equal(body, small) {
				t.Errorf("the small one: %d bytes, %v", len(body), err)
			}
			// This one comes too late to read what is on its way.
			_, body, err := w.try(http.MethodGet, blobPath(large))
			again := w.front.requests("GET /v2/app/blobs/"+string(oci.SHA256.FromBytes(large))) > 1 // on a slow machine: too late for that transfer
			if err == nil && !bytes.Equal(body, large) || row.heeds && err != nil || !row.heeds && !again && err == nil {
				t.Errorf("the large one, late: %d bytes, %v", len(body), err)
			}
			close(release)
			if body, err := io.ReadAll(reading[1].Body); err == nil && !bytes.Equal(body, large) || err != nil && row.heeds {
				t.Errorf("the large one: %d bytes, %v", len(body), err)
			}
			w.settle()
			w.cache.work.Wait()
			if n := w.uploads("hub/app"); n != 0 {
				t.Errorf("%d objects of uploads are left", n)
			}
			full.mu.Lock()
			full.hang = nil
			full.mu.Unlock()
			if _, body := w.get(blobPath(large)); !bytes.Equal(body, large) {
				t.Errorf("afterwards: %d bytes", len(body))
			}
		})
	}
}
