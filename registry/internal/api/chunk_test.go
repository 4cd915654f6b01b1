package api

import (
	"strings"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hostiletest"
)

// A chunk whose bytes the storage doesn't keep is not acknowledged.
func TestUpload_ChunkIsNotKept(t *testing.T) {
	broken := &brokenStore{}
	s := newServer(t, func(s *setup) { broken.both, s.store = s.store, broken })
	at := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
	broken.suspend = storage.ErrNoSpace
	s.do("PATCH", at, []byte("12")).wantError(t, 500, oci.CodeUnknown)
}

// A chunk that is sent again, to a replica that has not seen it, is answered with the place to continue.
func TestUpload_ChunkSentAgain_ToAnotherReplica(t *testing.T) {
	bucket := hostiletest.New(hostiletest.Options{})
	replica := func() *host {
		p := bucket.Process()
		t.Cleanup(func() { p.Close() })
		return newServer(t, func(s *setup) { s.store, s.rules.Remote = p, true })
	}
	a, b := replica(), replica()
	there := func(h *host, at string) string { return h.url + at[strings.Index(at, "/v2/"):] }
	digest := string(digestOf([]byte("1234")))
	for _, method := range []string{"PATCH", "PUT"} {
		at := a.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
		at = a.do("PATCH", at, []byte("12")).want(t, 202).location(t)
		b.do("PATCH", there(b, at), []byte("34")).want(t, 202, "Range", "0-3")
		stale := a.do(method, with(at, "digest", digest), []byte("34")).wantError(t, 416, oci.CodeRangeInvalid, "Range", "0-3")
		a.do("PUT", with(stale.location(t), "digest", digest), nil).want(t, 201)
	}
}
