package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/memory"
)

// Bytes of another digest never reach a client whole, and are not stored.
func TestBlob_WrongBytes(t *testing.T) {
	for _, size := range []int{1, 1000, 300_000} {
		w := newWorld(t)
		content := noise(5, size)
		wrong := bytes.Clone(content)
		wrong[len(wrong)-1] ^= 1
		w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool { rw.Write(wrong); return true })
		for range 2 {
			resp, body, err := w.try(http.MethodGet, blobPath(content))
			if err == nil && resp.StatusCode == 200 {
				t.Errorf("size %d: %s with %d bytes", size, resp.Status, len(body))
			}
		}
		w.settle()
		if _, err := w.reg.Cached("hub/app").StatBlob(t.Context(), oci.SHA256.FromBytes(content)); err == nil {
			t.Errorf("size %d: it was stored", size)
		}
		w.cache.work.Wait()
		if n := w.uploads("hub/app"); n != 0 {
			t.Errorf("size %d: %d objects of uploads are left", size, n)
		}
	}
}

// Bytes behind the end that an upstream gives would be verified by nobody.
func TestBlob_MoreBytesThanSaid(t *testing.T) {
	content := noise(14, 100_000)
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"at once": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Range", "bytes 0-99999/50")
			rw.WriteHeader(http.StatusPartialContent)
			rw.Write(content)
		},
		"when resumed": func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" { // without a size
				rw.Write(content[:50_000])
				rw.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			rw.Header().Set("Content-Range", "bytes "+strings.TrimPrefix(r.Header.Get("Range"), "bytes=")+"99999/40000")
			rw.WriteHeader(http.StatusPartialContent)
			rw.Write(content[50_000:])
		},
	} {
		w := newWorld(t)
		w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool { answer(rw, r); return true })
		if resp, body, err := w.try(http.MethodGet, blobPath(content)); err == nil && resp.StatusCode == 200 {
			t.Errorf("%s: %s with %d bytes", name, resp.Status, len(body))
		}
		w.cache.work.Wait()
		if _, err := w.reg.Cached("hub/app").StatBlob(t.Context(), oci.SHA256.FromBytes(content)); err == nil {
			t.Errorf("%s: it was stored", name)
		}
	}
}

// A transfer that breaks is resumed where it broke; one that does not come back is a broken
// transfer for the client, and the next one completes.
func TestBlob_BrokenTransfer(t *testing.T) {
	content := noise(6, 400_000)
	for _, resumes := range []bool{true, false} {
		w := newWorld(t, func(o *Options, _ *Source, _ *registry.Options, _ *upstream.Options) {
			if !resumes {
				o.Resume = 300 * time.Millisecond
			}
		})
		w.push("app", "v1", content)
		var broken atomic.Bool
		w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodHead || resumes && broken.Load() {
				return false
			}
			if broken.Swap(true) {
				panic(http.ErrAbortHandler)
			}
			rw.Header().Set("Content-Length", strconv.Itoa(len(content)))
			rw.Write(content[:150_000])
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		resp, body, err := w.try(http.MethodGet, blobPath(content))
		if resumes && (err != nil || !bytes.Equal(body, content)) {
			t.Errorf("resumed: %d bytes, %v", len(body), err)
		}
		if !resumes && err == nil {
			t.Errorf("not resumed: %s with %d bytes", resp.Status, len(body))
		}
		w.front.fail(nil)
		if _, body := w.get(blobPath(content)); !bytes.Equal(body, content) {
			t.Errorf("resumes %v: the next pull has %d bytes", resumes, len(body))
		}
		w.settle()
		w.cache.work.Wait()
		if n := w.uploads("hub/app"); n != 0 {
			t.Errorf("resumes %v: %d objects of uploads are left", resumes, n)
		}
	}
}

// An upstream that breaks off again and again after a few bytes is given up.
func TestBlob_ResumesAreBounded(t *testing.T) {
	content := noise(60, 100_000)
	w := newWorld(t, func(o *Options, _ *Source, _ *registry.Options, _ *upstream.Options) {
		o.Resume = 600 * time.Millisecond
	})
	w.push("app", "v1", content)
	w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead {
			return false
		}
		var from int
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		rw.Header().Set("Content-Length", strconv.Itoa(len(content)-from))
		if from > 0 {
			rw.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
			rw.WriteHeader(http.StatusPartialContent)
		}
		rw.Write(content[from : from+1000])
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	w.front.requests("")
	if resp, body, err := w.try(http.MethodGet, blobPath(content)); err == nil {
		t.Errorf("%s with %d bytes", resp.Status, len(body))
	}
	if n := w.front.requests("GET"); n < 2 || n > 4 {
		t.Errorf("%d requests, want one and a few to resume it", n)
	}
}

// An outage of some seconds in the middle of a blob delays it; nothing is fetched twice.
func TestBlob_LongOutage(t *testing.T) {
	content := noise(61, 400_000)
	w := newWorld(t)
	w.push("app", "v1", content)
	const outage = 3 * time.Second
	var since atomic.Pointer[time.Time]
	w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		now := time.Now()
		if since.CompareAndSwap(nil, &now) {
			rw.Header().Set("Content-Length", strconv.Itoa(len(content)))
			rw.Write(content[:150_000])
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		if time.Since(*since.Load()) < outage {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	if _, body, err := w.try(http.MethodGet, blobPath(content)); err != nil || !bytes.Equal(body, content) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

// Nobody waits: a transfer that breaks isn't resumed.
func TestBlob_BreaksWhenNobodyWaits(t *testing.T) {
	content := noise(62, 400_000)
	w := newWorld(t)
	w.push("app", "v1", content)
	left := make(chan struct{})
	w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			return false
		}
		rw.Header().Set("Content-Length", strconv.Itoa(len(content)))
		rw.Write(content[:150_000])
		rw.(http.Flusher).Flush()
		<-left
		panic(http.ErrAbortHandler)
	})
	b, err := w.cache.Puller("hub/app").OpenBlob(t.Context(), oci.SHA256.FromBytes(content))
	check(t, err)
	check(t, b.Close())
	w.front.requests("")
	close(left)
	w.settle()
	if n := w.front.requests("GET"); n != 0 {
		t.Errorf("%d more requests", n)
	}
}

// Without room in the spool each client gets the blob by a transfer of its own, verified all
// the same, and nothing is stored.
func TestBlob_SpoolFails(t *testing.T) {
	content := noise(63, 1_500_000)
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	for name, change := range map[string]func(*Options){
		"too small":  func(o *Options) { o.SpoolMax = 100_000 },
		"unwritable": func(o *Options) { o.Spool = file },
	} {
		for _, size := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", size ", size), func(t *testing.T) {
				w := newWorld(t, func(o *Options, _ *Source, _ *registry.Options, _ *upstream.Options) { change(o) })
				wrong := false
				w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool {
					body := content
					if wrong {
						body = append(bytes.Clone(content[:len(content)-1]), content[len(content)-1]^1)
					}
					if !size {
						rw.WriteHeader(http.StatusOK)
						rw.(http.Flusher).Flush()
						rw.Write(body)
						return true
					}
					http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(body))
					return true
				})
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						resp, body, err := w.try(http.MethodGet, blobPath(content))
						if size && (err != nil || !bytes.Equal(body, content)) || !size && (err != nil || resp.StatusCode != 502) {
							t.Errorf("%d bytes, %v", len(body), err)
						}
					})
				}
				all.Wait()
				if !size {
					return
				}
				if _, body := w.get(blobPath(content), "Range", "bytes=700000-"); !bytes.Equal(body, content[700_000:]) {
					t.Errorf("a range: %d bytes", len(body))
				}
				wrong = true
				if _, body, err := w.try(http.MethodGet, blobPath(content)); err == nil {
					t.Errorf("bytes of another digest: %d bytes", len(body))
				}
				w.cache.work.Wait()
				if w.has(content) {
					t.Error("it was stored")
				}
			})
		}
	}
}

// A spool that fills up in the middle of a blob: its readers go on with what is behind.
func TestBlob_SpoolFillsUp(t *testing.T) {
	content := noise(64, 1_500_000)
	w := newWorld(t)
	w.push("app", "v1", content)
	key := blobKey{"hub/app", oci.SHA256.FromBytes(content)}
	for _, got := range []int{0, 1, 70_000, 1_499_000} {
		file, err := w.cache.spool.create()
		check(t, err)
		check(t, file.write(content[:got], 0))
		tr := &transfer{reg: w.cache, src: w.source, key: key, size: int64(len(content)), file: file, got: int64(got), users: 1, state: failed, changed: make(chan struct{})}
		for _, from := range []int{0, got, got + 1, 1_499_500} {
			tr.users++
			r := &reader{t: tr, ctx: t.Context()}
			_, err := r.Seek(int64(from), io.SeekStart)
			check(t, err)
			if body, err := io.ReadAll(r); err != nil || !bytes.Equal(body, content[from:]) {
				t.Errorf("%d bytes, from %d: %d bytes, %v", got, from, len(body), err)
			}
			check(t, r.Close())
		}
		tr.release()
	}
	if !w.cache.spool.room.TryAcquire(w.cache.opts.SpoolMax) {
		t.Error("the spool holds bytes of transfers that have ended")
	}
}

// A full disk does not keep clients from what they pull, at whatever byte it is full.
func TestBlob_FullDisk(t *testing.T) {
	content := noise(7, 1_500_000)
	for _, room := range []int{-1, 0, 70_000} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			full := &fullStore{Store: memory.New(), room: max(room, 0), full: room < 0}
			w := newWorld(t, func(_ *Options, _ *Source, ro *registry.Options, _ *upstream.Options) { ro.Store = full })
			w.push("app", "v1", content)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if _, body, err := w.try(http.MethodGet, blobPath(content)); err != nil || !bytes.Equal(body, content) {
						t.Errorf("%d bytes, %v", len(body), err)
					}
				})
			}
			all.Wait()
			w.settle()
			w.cache.work.Wait()
			if n := w.uploads("hub/app"); n != 0 {
				t.Errorf("%d objects of uploads are left", n)
			}
		})
	}
}
