package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/memory"
	"slipway/shared/logging"
)

// urlSigner gives URLs for everything.
type urlSigner struct{ err error }

const presigned = "signature=secret"

func (u urlSigner) SignedURL(_ context.Context, key, contentType string, _ netip.Addr) (string, error) {
	return "https://store.example" + key + "?type=" + contentType + "&" + presigned, u.err
}

func signing(u urlSigner) func(*setup) { return func(s *setup) { s.rules.Signer = u } }

func TestRedirect_BlobGet_Is307WithoutTraceInLogs(t *testing.T) {
	access := &lines{}
	s := newServer(t, signing(urlSigner{}), func(s *setup) { s.options.Access = logging.NewAccessLog(access) })
	content := []byte("some layer")
	d := s.pushBlob("a", content)
	at, location := "/v2/a/blobs/"+string(d), "https://store.example"+layout.BlobData(d)+"?type=application/octet-stream&"+presigned
	for _, header := range [][]string{nil, {"Range", "bytes=2-5"}, {"If-None-Match", `"other"`}} {
		got := s.do("GET", at, nil, header...).want(
			t, 307, "Location", location, "Docker-Content-Digest", string(d),
			"Cache-Control", "no-store", "Etag", "", "Content-Type", "", "Accept-Ranges", "", "Content-Length", "0",
		)
		if len(got.body) > 0 {
			t.Errorf("%v: body %q", header, got.body)
		}
	}
	s.do("HEAD", at, nil).want(t, 200, "Location", "", "Content-Length", "10", "Content-Type", "application/octet-stream", "Docker-Content-Digest", string(d))
	if pulls := s.logged("pull"); len(pulls) != 3 {
		t.Errorf("%d pulls are logged, want 3", len(pulls))
	}
	for _, e := range s.logs.All() {
		if line := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(line, presigned) {
			t.Errorf("the log has the signature: %s", line)
		}
	}
	if text := access.String(); strings.Contains(text, presigned) || strings.Count(text, " 307 ") != 3 {
		t.Errorf("access log:\n%s", text)
	}
}

// What needs our own entity tag, or is no blob that can be read, is answered here.
func TestRedirect_AnsweredHere(t *testing.T) {
	s := newServer(t, signing(urlSigner{}))
	content := []byte("some layer")
	d := s.pushBlob("a", content)
	at, etag := "/v2/a/blobs/"+string(d), `"`+string(d)+`"`
	s.do("GET", at, nil, "If-Match", etag).want(t, 200, "Location", "", "Etag", etag)
	s.do("GET", at, nil, "If-Range", etag, "Range", "bytes=0-3").want(t, 206, "Location", "")
	several := s.do("GET", at, nil, "Range", "bytes=0-1,5-9").want(t, 206, "Location", "")
	if text := string(several.body); !strings.Contains(text, "so\r\n") || !strings.Contains(text, "layer") || strings.Contains(text, "some layer") {
		t.Errorf("several ranges: %q", text)
	}
	s.do("GET", at, nil, "Range", "bytes=0-0,-1").want(t, 206, "Location", "")
	s.do("GET", at, nil, "If-None-Match", etag).want(t, 304, "Location", "", "Etag", etag)
	s.do("GET", at, nil, "If-Match", `"other"`).want(t, 412, "Location", "")
	unknown := "/blobs/" + string(digestOf([]byte("nothing")))
	s.do("GET", "/v2/a"+unknown, nil).wantError(t, 404, oci.CodeBlobUnknown).want(t, 404, "Location", "")
	s.do("GET", "/v2/none"+unknown, nil).wantError(t, 404, oci.CodeBlobUnknown).want(t, 404, "Location", "")
	s.do("GET", "/v2/none/blobs/"+string(d), nil).want(t, 404, "Location", "")
	s.pushManifest("a", "v1", oci.MediaTypeManifest, s.image("a", "x"))
	s.do("GET", "/v2/a/manifests/v1", nil, "Accept", oci.MediaTypeManifest).want(t, 200, "Location", "")
}

func TestRedirect_OnlyAfterTheAccessCheck(t *testing.T) {
	store := memory.New()
	var d oci.Digest
	push := func(s *setup) {
		s.store = store
		d = newServer(t, func(x *setup) { x.store = store }).pushBlob("secret/x", []byte("some layer"))
	}
	s := newServer(t, push, signing(urlSigner{}), withRules(t, allow("u", "secret/**", "pull")))
	s.do("GET", "/v2/secret/x/blobs/"+string(d), nil).want(t, 401, "Location", "")
	s.do("GET", "/v2/secret/x/blobs/"+string(d), nil, "Authorization", rightUser).want(t, 307, "Location", "*")
}

func TestRedirect_StoreThatCannotSign_BlobComesFromHere(t *testing.T) {
	s := newServer(t, signing(urlSigner{errors.New("no key")}))
	d := s.pushBlob("a", []byte("some layer"))
	if got := s.do("GET", "/v2/a/blobs/"+string(d), nil).want(t, 200, "Location", ""); string(got.body) != "some layer" {
		t.Errorf("body %q", got.body)
	}
}

func TestRedirect_ExcludedClients_GetBlobsFromHere(t *testing.T) {
	s := newServer(t, signing(urlSigner{}), func(s *setup) {
		s.options.NoRedirect = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
		s.options.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	})
	d := s.pushBlob("a", []byte("some layer"))
	for client, want := range map[string]int{
		"192.0.2.7": http.StatusOK, "2001:db8::1": http.StatusOK, "198.51.100.1": http.StatusTemporaryRedirect, "2001:db9::1": http.StatusTemporaryRedirect,
	} {
		s.do("GET", "/v2/a/blobs/"+string(d), nil, "X-Forwarded-For", client).want(t, want)
	}
}
