package api

import (
	"net/http"
	"testing"
)

// A handler that adds to a header that is also configured changes its own
// answer only.
func TestConfiguredHeadersAreNotAddedTo(t *testing.T) {
	shared := commonHeaders(http.Header{"warning": make([]string, 1, 4)})
	for _, h := range shared {
		one, two := append(h.values, "one"), append(h.values, "two") //nolint:gocritic // two answers
		if one[len(one)-1] != "one" || two[len(two)-1] != "two" {
			t.Errorf("%s: two answers share what was added: %q, %q", h.key, one, two)
		}
	}
}
