package web

import (
	"strings"
	"testing"
)

func TestSendersAt(t *testing.T) {
	ids := map[string]bool{}
	for _, s := range sendersAt("https://relay.example.org", "Atoken", Mail{"0.0.0.0:2525", "relay.example.org"}, false) {
		if ids[s.ID] || !strings.Contains(s.Snippet, "Atoken") || strings.Contains(s.Snippet, "TOKEN") || strings.Contains(s.Snippet, "BASE") || strings.Contains(s.Snippet, "HOST") || strings.Contains(s.Snippet, "PLAIN") {
			t.Errorf("%s: %s", s.ID, s.Snippet)
		}
		ids[s.ID] = true
		if s.ID == "mail" && (!strings.Contains(s.Snippet, "relay.example.org:2525\n") || !strings.HasSuffix(s.Snippet, "Atoken@relay.example.org")) {
			t.Error(s.Snippet)
		}
		if s.ID == "apprise" && !strings.HasSuffix(s.Snippet, "gotifys://relay.example.org/Atoken") {
			t.Error(s.Snippet)
		}
	}
	if list := sendersAt("https://relay.example.org", "Atoken", Mail{}, true); ids["heartbeat"] || !strings.HasSuffix(list[0].Snippet, " https://relay.example.org/heartbeat/Atoken") {
		t.Errorf("a sender of heartbeats: without an interval %t, with one %q", ids["heartbeat"], list[0].Snippet)
	}
	if list := sendersAt("https://relay.example.org", "Atoken", Mail{}, false); !ids["mail"] || len(list) != len(ids)-1 {
		t.Errorf("%d senders of a relay that takes no mails, %d of one that does", len(list), len(ids))
	}
}
