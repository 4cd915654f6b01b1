package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/memory"
)

// FuzzRequest sends requests of any shape: none may be a fault of the
// registry's, and every refusal is an error envelope.
func FuzzRequest(f *testing.F) {
	blob := string(digestOf([]byte("blob")))
	for _, seed := range []struct{ method, target, header, value, body string }{
		{"GET", "/v2/", "Accept", "*/*", ""},
		{"GET", "/v2/a/blobs/" + blob, "Range", "bytes=1-2,3-", ""},
		{"GET", "/v2/a/blobs/" + blob, "If-None-Match", `W/"x", *`, ""},
		{"POST", "/v2/a/blobs/uploads/?digest=" + blob, "", "", "blob"},
		{"POST", "/v2/b/blobs/uploads/?from=a&mount=" + blob, "", "", ""},
		{"PATCH", "/v2/a/blobs/uploads/x?_state=abc", "Content-Range", "0-3", "blob"},
		{"PUT", "/v2/a/blobs/uploads/x?digest=" + blob, "Content-Range", "bytes 0-3/4", "blob"},
		{"PUT", "/v2/a/manifests/latest?tag=a&tag=b", "Content-Type", oci.MediaTypeIndex, `{"schemaVersion":2,"manifests":[]}`},
		{"DELETE", "/v2/a/manifests/latest", "", "", ""},
		{"GET", "/v2/a/referrers/" + blob + "?n=1&last=x&artifactType=y", "", "", ""},
		{"GET", "/v2/_catalog?n=3&last=a%2F", "Forwarded", `proto="https;host=`, ""},
		{"OPTIONS", "/v2/a/tags/list/", "X-Forwarded-Host", "a,b", ""},
	} {
		f.Add(seed.method, seed.target, seed.header, seed.value, []byte(seed.body))
	}
	store := memory.New()
	a, err := New(Options{
		Registry: registry.New(registry.Options{Store: store, DeleteEnabled: true}),
		Log:      zap.NewNop(), DeleteEnabled: true, Secret: []byte("s"),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, target, header, value string, body []byte) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", bytes.NewReader(body))
		r.Method, r.URL, r.RequestURI = method, u, target
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Fatalf("%s %q: %d %s", method, target, w.Code, w.Body)
		}
		var e struct{ Errors []struct{ Code oci.Code } }
		if w.Code >= http.StatusBadRequest && (json.Unmarshal(w.Body.Bytes(), &e) != nil || len(e.Errors) == 0) && method != http.MethodHead {
			t.Fatalf("%s %q: %d without an envelope: %q", method, target, w.Code, w.Body)
		}
	})
}
