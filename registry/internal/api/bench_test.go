package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/memory"
)

// nowhereWriter takes answers without keeping them.
type nowhereWriter struct{ h http.Header }

func (w nowhereWriter) Header() http.Header         { return w.h }
func (w nowhereWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w nowhereWriter) WriteHeader(int)             {}

func (w nowhereWriter) ReadFrom(r io.Reader) (int64, error) { return io.Copy(io.Discard, r) }

// BenchmarkHotPaths measures what the API adds to net/http and to the storage: the
// store is memory and the logger quiet, as in a registry that serves pulls.
func BenchmarkHotPaths(b *testing.B) {
	store := memory.New()
	a, err := New(Options{
		Registry: registry.New(registry.Options{Store: store}),
		Log:      zap.NewNop(), Secret: []byte("s"), Headers: http.Header{"X-Content-Type-Options": {"nosniff"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	serve := func(r *http.Request) int {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w.Code
	}
	blob := string(digestOf([]byte("{}")))
	if code := serve(httptest.NewRequest(http.MethodPost, "/v2/library/alpine/blobs/uploads/?digest="+blob, strings.NewReader("{}"))); code != 201 {
		b.Fatal(code)
	}
	put := httptest.NewRequest(http.MethodPut, "/v2/library/alpine/manifests/latest", strings.NewReader(`{"schemaVersion":2,"config":`+describe("x", oci.Digest(blob), 2)+`}`))
	put.Header.Set("Content-Type", oci.MediaTypeManifest)
	if code := serve(put); code != 201 {
		b.Fatal(code)
	}
	for _, c := range []struct{ name, method, path string }{
		{"manifest GET", "GET", "/v2/library/alpine/manifests/latest"},
		{"manifest HEAD", "HEAD", "/v2/library/alpine/manifests/latest"},
		{"blob HEAD", "HEAD", "/v2/library/alpine/blobs/" + blob},
		{"blob GET", "GET", "/v2/library/alpine/blobs/" + blob},
		{"unknown", "HEAD", "/v2/library/alpine/blobs/" + string(digestOf(nil))},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := httptest.NewRequest(c.method, c.path, nil)
			r.Header["Accept"] = []string{oci.MediaTypeManifest, oci.MediaTypeIndex}
			b.ReportAllocs()
			for b.Loop() {
				a.ServeHTTP(nowhereWriter{http.Header{}}, r)
			}
		})
	}
}
