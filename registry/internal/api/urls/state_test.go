package urls

import (
	"encoding/base64"
	"testing"
	"time"

	"slipway/registry/internal/oci"
)

// A state that CNCF distribution 3.1.2 would make with the secret "s3cret":
// the same bytes, from openssl.
//
//	doc='{"Name":"lib/a","UUID":"u-1","Offset":7,"StartedAt":"2026-01-02T03:04:05.000000006Z"}'
//	{ printf %s "$doc" | openssl dgst -sha256 -hmac s3cret -binary; printf %s "$doc"; } | basenc --base64url -w0
const foreignState = "512v_RqHnOF04JXFxO2L-jFkS0-u7LM1GIMDbBqSvpZ7Ik5hbWUiOiJsaWIvYSIsIlVVSUQiOiJ1LTEiLCJPZmZzZXQiOjcsIlN0YXJ0ZWRBdCI6IjIwMjYtMDEtMDJUMDM6MDQ6MDUuMDAwMDAwMDA2WiJ9"

func TestStateIsThatOfDistribution(t *testing.T) {
	s := Signer{Secret: []byte("s3cret")}
	want := UploadState{Name: "lib/a", UUID: "u-1", Offset: 7, StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	if got, err := s.Sign(want); err != nil || got != foreignState {
		t.Errorf("signed as %s, error %v", got, err)
	}
	if got, err := s.Read(foreignState, "lib/a", "u-1"); err != nil || got != want {
		t.Errorf("read %+v, error %v", got, err)
	}
}

func TestStateIsRefused(t *testing.T) {
	s := Signer{Secret: []byte("s3cret")}
	good, err := s.Sign(UploadState{Name: "a", UUID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := base64.URLEncoding.DecodeString(good)
	raw[len(raw)-3]++
	other, _ := Signer{Secret: []byte("other")}.Sign(UploadState{Name: "a", UUID: "u"})
	for _, c := range []struct{ what, token, name, id string }{
		{"nothing", "", "a", "u"},
		{"no base64", "%%%", "a", "u"},
		{"short", "YWJj", "a", "u"},
		{"changed", base64.URLEncoding.EncodeToString(raw), "a", "u"},
		{"other secret", other, "a", "u"},
		{"other repository", good, "b", "u"},
		{"other upload", good, "a", "v"},
	} {
		if _, err := s.Read(c.token, oci.Name(c.name), c.id); err == nil {
			t.Errorf("%s: accepted", c.what)
		}
	}
}
