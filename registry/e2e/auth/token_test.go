package auth

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"slipway/registry/e2e/harness"
)

// Rules in a file of their own count soon after an edit; a broken edit changes nothing.
func TestAccessFile_IsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.yml")
	harness.WriteFile(t, file, []byte("rules:\n- {who: [anyone], repositories: ['**'], allow: [pull]}\n"))
	x := harness.StartTeam(t, t.TempDir(), "access: {file: "+file+"}\n")
	anonymous := func() int {
		resp, _ := harness.Fetch(t, "GET", "http://"+x.Addr+"/v2/a/manifests/v1", nil, nil)
		return resp.StatusCode
	}
	if got := anonymous(); got != http.StatusNotFound {
		t.Fatalf("anonymous pull: %d", got)
	}
	if got := x.Registry(t, "access", "explain", "anonymous", "a", "pull"); !strings.HasPrefix(got, "allowed by rules[0]: anyone in **: allow pull") {
		t.Errorf("explain: %s", got)
	}
	harness.WriteFile(t, file, []byte("rules:\n- {who: [anyone], repositories: ['**'], alow: [pull]}\n"))
	harness.Eventually(t, "the log says that the rules are broken", func() bool {
		anonymous()
		return strings.Contains(x.Output(), "cannot reload the access rules") && strings.Contains(x.Output(), "alow")
	})
	if got := anonymous(); got != http.StatusNotFound {
		t.Errorf("anonymous pull after a broken edit: %d", got)
	}
	harness.WriteFile(t, file, []byte("rules:\n- {who: [users], repositories: ['**'], allow: [pull]}\n"))
	harness.Eventually(t, "the new rules count", func() bool { return anonymous() == http.StatusUnauthorized })
}
