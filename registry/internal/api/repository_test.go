package api

import (
	"strings"
	"testing"

	"slipway/registry/internal/oci"
)

func TestDeleteRepository(t *testing.T) {
	s := newServer(t)
	s.pushManifest("a/b", "v1", oci.MediaTypeManifest, s.image("a/b", "x"))
	s.do("DELETE", "/v2/a/b/_slipway/repository", nil).want(t, 202)
	s.do("GET", "/v2/a/b/manifests/v1", nil).want(t, 404)
	if body := string(s.do("GET", "/v2/_catalog", nil).body); strings.Contains(body, "a/b") {
		t.Errorf("catalog = %s", body)
	}
	s.do("DELETE", "/v2/a/b/_slipway/repository", nil).want(t, 404)
}
