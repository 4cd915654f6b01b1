// Package clients proves that docker, podman, skopeo, oras, cosign, Helm and generated clients push and pull, on each kind of storage.
package clients

import (
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// wantPage fails the test unless a page below /ui/ has all words.
func wantPage(t *testing.T, addr, path string, words ...string) {
	t.Helper()
	resp, body := harness.Fetch(t, "GET", "http://"+addr+"/ui/"+path, nil, nil)
	for _, word := range words {
		if !strings.Contains(string(body), word) {
			t.Errorf("%s (%s) does not show %s", path, resp.Status, word)
		}
	}
}
