package api

import (
	"bytes"
	"strings"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// What a client reads names what it has sent, and what was expected.
func TestErrors_SayWhatIsWrong(t *testing.T) {
	s := newServer(t)
	want := func(a answer, code oci.Code, status int, text string) {
		t.Helper()
		if a.wantError(t, status, code); !strings.Contains(string(a.body), text) {
			t.Errorf("%s %s: %s; want %s", a.Request.Method, a.Request.URL, a.body, text)
		}
	}
	content, other := []byte("content"), []byte("other")
	got, asked := string(digestOf(other)), string(digestOf(content))
	want(s.do("POST", "/v2/a/blobs/uploads/?digest="+asked, other), oci.CodeDigestInvalid, 400, "the content has the digest "+got+", not "+asked)
	at := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
	want(s.do("PUT", at, nil), oci.CodeDigestInvalid, 400, "the parameter digest is missing")
	body := []byte(`{"schemaVersion":2}`)
	want(s.do("PUT", "/v2/a/manifests/"+asked, body, "Content-Type", oci.MediaTypeManifest), oci.CodeDigestInvalid, 400, "the manifest has the digest "+string(digestOf(body))+", not "+asked)
	large := bytes.Repeat([]byte(" "), registry.DefaultMaxManifestSize+1)
	want(s.do("PUT", "/v2/a/manifests/v1", large, "Content-Type", oci.MediaTypeManifest), oci.CodeManifestInvalid, 413, "manifest is larger than")
	want(s.do("POST", "/v2/a/tags/list", nil), oci.CodeUnsupported, 405, "this path does not support the method POST")
}
