package api

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/hostile"
)

// A state that CNCF distribution 3.1.2 would make with the secret "s3cret":
// the same bytes, from openssl.
//
//	doc='{"Name":"lib/a","UUID":"u-1","Offset":7,"StartedAt":"2026-01-02T03:04:05.000000006Z"}'
//	{ printf %s "$doc" | openssl dgst -sha256 -hmac s3cret -binary; printf %s "$doc"; } | basenc --base64url -w0
const foreignState = "512v_RqHnOF04JXFxO2L-jFkS0-u7LM1GIMDbBqSvpZ7Ik5hbWUiOiJsaWIvYSIsIlVVSUQiOiJ1LTEiLCJPZmZzZXQiOjcsIlN0YXJ0ZWRBdCI6IjIwMjYtMDEtMDJUMDM6MDQ6MDUuMDAwMDAwMDA2WiJ9"

func TestStateIsThatOfDistribution(t *testing.T) {
	s := states{secret: []byte("s3cret")}
	want := uploadState{Name: "lib/a", UUID: "u-1", Offset: 7, StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	if got, err := s.sign(want); err != nil || got != foreignState {
		t.Errorf("signed as %s, error %v", got, err)
	}
	if got, err := s.read(foreignState, "lib/a", "u-1"); err != nil || got != want {
		t.Errorf("read %+v, error %v", got, err)
	}
}

func TestStateIsRefused(t *testing.T) {
	s := states{secret: []byte("s3cret")}
	good, err := s.sign(uploadState{Name: "a", UUID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := base64.URLEncoding.DecodeString(good)
	raw[len(raw)-3]++
	other, _ := states{secret: []byte("other")}.sign(uploadState{Name: "a", UUID: "u"})
	for _, c := range []struct{ what, token, name, id string }{
		{"nothing", "", "a", "u"},
		{"no base64", "%%%", "a", "u"},
		{"short", "YWJj", "a", "u"},
		{"changed", base64.URLEncoding.EncodeToString(raw), "a", "u"},
		{"other secret", other, "a", "u"},
		{"other repository", good, "b", "u"},
		{"other upload", good, "a", "v"},
	} {
		if _, err := s.read(c.token, oci.Name(c.name), c.id); err == nil {
			t.Errorf("%s: accepted", c.what)
		}
	}
}

// A chunk that is sent again, to a replica that has not seen it, is told where the upload goes on.
func TestUpload_ChunkSentAgain_ToAnotherReplica(t *testing.T) {
	bucket := hostile.New(hostile.Options{})
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
