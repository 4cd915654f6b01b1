package web

import (
	"strings"
	"testing"
)

func TestSendersAt(t *testing.T) {
	ids := map[string]bool{}
	for _, s := range sendersAt("https://relay.example.org", "Atoken") {
		if ids[s.ID] || !strings.Contains(s.Snippet, "Atoken") || strings.Contains(s.Snippet, "TOKEN") || strings.Contains(s.Snippet, "BASE") || strings.Contains(s.Snippet, "HOST") || strings.Contains(s.Snippet, "PLAIN") {
			t.Errorf("%s: %s", s.ID, s.Snippet)
		}
		ids[s.ID] = true
		if s.ID == "apprise" && !strings.HasSuffix(s.Snippet, "gotifys://relay.example.org/Atoken") {
			t.Error(s.Snippet)
		}
	}
}
