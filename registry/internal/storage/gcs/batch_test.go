package gcs

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// A service that knows no batches is asked for one once, and the keys are deleted one by one.
func TestDeleteMany_Refused(t *testing.T) {
	inner := newBucket(t)
	target, err := url.Parse(endpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	var batches atomic.Int64
	forward := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/batch/storage/v1" {
			batches.Add(1)
			w.WriteHeader(http.StatusNotFound)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer front.Close()
	b, err := New(Options{Bucket: inner.o.Bucket, Endpoint: front.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s := object.New(object.NewClient(b, "", b.Limits(), object.Timing{}), object.Options{Spool: t.TempDir(), Upload: func(string) bool { return false }})
	for range 2 {
		if _, err := b.Put(t.Context(), "b", object.Body{}, object.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/a", Delete: true}, {Key: "/b", Delete: true}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Head(t.Context(), "b"); !errors.Is(err, storage.ErrNotExist) {
			t.Errorf("the second key: %v", err)
		}
	}
	if n := batches.Load(); n != 1 {
		t.Errorf("%d batches, want 1", n)
	}
}

// Where deletions are signed, so that they expire, none is a part of a batch, which cannot be signed.
func TestDeleteMany_Signed(t *testing.T) {
	b, err := New(Options{Bucket: "b", Endpoint: "http://127.0.0.1:1", Signer: &Signer{}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.DeleteMany(t.Context(), []string{"a", "b"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("deleted together: %v", err)
	}
}
