package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/memory"
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

// Nobody waits for a store that doesn't end a commit. What can't be stored is removed once the
// store answers.
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
			if _, body, err := w.try(http.MethodGet, blobPath(large)); err != nil || !bytes.Equal(body, large) {
				t.Errorf("the large one, late: %d bytes, %v", len(body), err)
			}
			if body, err := io.ReadAll(reading[1].Body); err != nil || !bytes.Equal(body, large) {
				t.Errorf("the large one: %d bytes, %v", len(body), err)
			}
			close(release)
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
