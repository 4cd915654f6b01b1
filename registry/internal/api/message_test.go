package api

import (
	"net/http"
	"strings"
	"testing"

	"slipway/registry/internal/oci"
)

// Docker prints the message of an error and drops its detail: the message has the reason and what to do.
func TestErrors_MessagesSayWhy(t *testing.T) {
	s := newServer(t, func(s *setup) { s.options.DeleteEnabled, s.rules.DeleteEnabled = false, false })
	for path, want := range map[string]string{
		"DELETE /v2/a/manifests/v1": "deletion is off in this registry (storage.delete.enabled)",
		"GET /nowhere":              "no such path; the API is below /v2/",
		"GET /v2/A/manifests/v1":    "repository name must be lower-case",
	} {
		method, target, _ := strings.Cut(path, " ")
		if got := s.do(method, target, nil); !strings.Contains(string(got.body), `"message":"`+want) {
			t.Errorf("%s: %s, want the message %q", path, got.body, want)
		}
	}
	if e := oci.Explain(oci.CodeDenied, "no"); e.Detail == nil {
		t.Error("a refusal without a detail: Docker's engine repeats the upload for a minute")
	}
	if status, list := clientErrors(http.ErrBodyNotAllowed); status != http.StatusInternalServerError || list[0].Code != oci.CodeUnknown {
		t.Errorf("%d %v", status, list)
	}
}
