package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/filesystem"
	"slipway/shared/programtest"
)

// Deletions work on a disk that has room neither for their record nor for their event, and their answers
// say so.
func TestDelete_FullDisk(t *testing.T) {
	dir := programtest.Mount(t, "tmpfs", "size=4m")
	store, err := filesystem.Open(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	events := programtest.Mount(t, "tmpfs", "size=1m") // apart: a deletion makes room
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(receiver.Close)
	n, err := notify.New(notify.Options{
		Endpoints: []notify.Endpoint{{Name: "l", URL: receiver.URL, Timeout: 5 * time.Second, Threshold: 3, Backoff: time.Second}},
		Directory: events, MaxSize: 1 << 20, Version: notify.V1, Log: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	s := newServer(t, func(c *setup) {
		c.store, c.options.Notify, c.rules.KeepDeleted = store, n, time.Hour
	})
	blob := digestOf([]byte("{}"))
	s.do("POST", "/v2/a/blobs/uploads/?digest="+string(blob), []byte("{}")).want(t, 201)
	manifest := []byte(`{"schemaVersion":2,"config":` + describe("x", blob, 2) + `,"layers":[]}`)
	const tags = 20
	for i := range tags {
		s.do("PUT", fmt.Sprintf("/v2/a/manifests/v%d", i), manifest, "Content-Type", oci.MediaTypeManifest).want(t, 201)
	}
	var said string
	remove := func(path string) {
		t.Helper()
		programtest.FillFiles(t, filepath.Join(dir, "filler"))
		got := s.do("DELETE", path, nil)
		got.want(t, 202)
		warning := strings.Join(got.Header.Values("Warning"), "\n")
		if said += warning; !strings.Contains(warning, "cannot be undone") {
			t.Errorf("DELETE %s: the answer doesn't say that it can't be undone: %q", path, warning)
		}
	}
	programtest.FillFiles(t, filepath.Join(events, "filler"))
	for i := range tags {
		remove(fmt.Sprintf("/v2/a/manifests/v%d", i))
	}
	remove("/v2/a/manifests/" + string(digestOf(manifest)))
	if !strings.Contains(said, "waits in memory only") {
		t.Errorf("no answer says that an event could not be stored: %q", said)
	}
	programtest.FillFiles(t, filepath.Join(dir, "filler"))
	s.do("DELETE", "/v2/a/blobs/"+string(blob), nil).want(t, 202)
	if got := s.do("POST", "/v2/a/blobs/uploads/?digest="+string(blob), []byte("{}")); got.StatusCode < 500 {
		t.Errorf("the disk isn't full: %s", got.Status)
	}
}
