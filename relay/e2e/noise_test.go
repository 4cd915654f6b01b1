package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A flood that the relay is killed in becomes two messages and their edits. In quiet hours only the highest priority mentions.
func TestFloodInQuietHours(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("chatty", "")
	out, err := s.command("app", "set", "chatty", "--digest", "1h", "--quiet-hours", "00:00-24:00", "--time-zone", "Europe/Berlin", "--config", s.configure()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i := range 15 {
		s.insist(a, fmt.Sprint("m", i))
		if i%5 == 3 {
			s.kill()
			s.start()
		}
	}
	s.becomes(s.post(a, object{"message": "high", "priority": 1}), "sent")
	s.becomes(s.post(a, object{"message": "highest", "priority": 2}), "sent")
	s.within(2*time.Minute, "nothing waits any more", func() bool { return !s.pending() })
	own, last := 0, ""
	mentions := map[string]string{}
	for _, e := range s.events(a.room) {
		var content object
		s.must(json.Unmarshal(e.Content, &content))
		if relation, _ := content["m.relates_to"].(map[string]any); relation["rel_type"] == "m.replace" {
			last = content.text("body")
			continue
		}
		own++
		mentions[content.text("body")[strings.LastIndexByte(content.text("body"), '\n')+1:]] = fmt.Sprint(content["m.mentions"])
	}
	if own != 4 || !strings.Contains(last, "14 more messages") || !strings.HasSuffix(last, "\nm14") {
		t.Errorf("%d messages, the last edit %q", own, last)
	}
	if mentions["high"] != "map[]" || !strings.Contains(mentions["highest"], s.owner.ID) {
		t.Errorf("mentions %v", mentions)
	}
}
