package azure

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// What a batch has not deleted is deleted by requests of its own, and a store that refuses batches is
// asked for one once.
func TestDeleteMany_Refused(t *testing.T) {
	for name, tt := range map[string]struct {
		answer  func(w http.ResponseWriter)
		batches int64 // that two deletions send
	}{
		"the batch":       {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) }, 1},
		"all parts":       {func(w http.ResponseWriter) { parts(w, http.StatusForbidden, http.StatusForbidden) }, 1},
		"one of its keys": {func(w http.ResponseWriter) { parts(w, http.StatusNotFound, http.StatusForbidden) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var batches atomic.Int64
			b := before(t, func(w http.ResponseWriter, r *http.Request, pass func()) {
				if r.URL.Query().Get("comp") != "batch" {
					pass()
					return
				}
				batches.Add(1)
				tt.answer(w)
			})
			s := object.New(object.NewClient(b, "", b.Limits(), object.Timing{}), object.Options{Spool: t.TempDir(), Upload: func(string) bool { return false }})
			for range 2 {
				if _, err := b.Put(t.Context(), "b", small("x"), object.PutOptions{}); err != nil {
					t.Fatal(err)
				}
				if err := s.Apply(t.Context(), nil, storage.Stage{{Key: "/a", Delete: true}, {Key: "/b", Delete: true}}); err != nil {
					t.Fatal(err)
				}
				if _, err := b.Head(t.Context(), "b"); !errors.Is(err, storage.ErrNotExist) {
					t.Errorf("the second key: %v", err)
				}
			}
			if n := batches.Load(); n != tt.batches {
				t.Errorf("%d batches, want %d", n, tt.batches)
			}
		})
	}
}

// parts answers a batch with those statuses.
func parts(w http.ResponseWriter, statuses ...int) {
	w.Header().Set("Content-Type", "multipart/mixed; boundary=b")
	w.WriteHeader(http.StatusAccepted)
	for i, status := range statuses {
		fmt.Fprintf(w, "--b\r\nContent-Type: application/http\r\nContent-ID: %d\r\n\r\nHTTP/1.1 %d %s\r\n\r\n\r\n", i, status, http.StatusText(status))
	}
	fmt.Fprint(w, "--b--\r\n")
}
