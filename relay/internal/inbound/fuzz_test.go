package inbound

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"slipway/relay/internal/format"
)

// written is what the messages are made of; nothing that was sent may add to it.
var written = regexp.MustCompile(`</?(code|p|strong|br|span)[^>]*>`)

// FuzzRegistry: whatever comes, a notice stays one line of title and text without
// markup of its own.
func FuzzRegistry(f *testing.F) {
	f.Add([]byte(pushV2))
	f.Add([]byte(`{"events":[{"action":"push","target":{"repository":"<b>","tag":"[x](http://y)","digest":"a:b"},"actor":{"name":"` + "`\\n# x\\n``" + `"}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := parseEnvelope(body)
		if err != nil {
			return
		}
		if len(b.Drafts)+b.Ignored > maxEvents {
			t.Fatal("more events than may be")
		}
		for _, n := range b.Drafts {
			checkMessage(t, n)
		}
	})
}

// FuzzNames: any string in any place that a person's words come through.
func FuzzNames(f *testing.F) {
	f.Add("hello", "1", "sha256:0123456789abcdef", "alice", "localhost:5000")
	f.Add("``", "\n\n# x", "` ``", "<img src=x>", "![x](mxc://y)")
	f.Fuzz(func(t *testing.T, repository, tag, digest, actor, host string) {
		if repository == "" || tag == "" {
			return
		}
		event, err := json.Marshal(map[string]any{"events": []any{map[string]any{
			"action": "push", "target": map[string]any{"repository": repository, "tag": tag, "digest": digest},
			"actor": map[string]any{"name": actor}, "request": map[string]any{"host": host},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		b, err := parseEnvelope(event)
		if err != nil || len(b.Drafts) != 1 {
			t.Fatalf("%s: %v", event, err)
		}
		checkMessage(t, b.Drafts[0])
	})
}

func checkMessage(t *testing.T, n Draft) {
	t.Helper()
	if strings.ContainsFunc(n.Title+n.Message+n.IdempotencyKey, unicode.IsControl) || len(n.IdempotencyKey) > 128 || n.Message == "" {
		t.Fatalf("%+q", n.Title+" | "+n.Message)
	}
	html, _ := format.Body("", n.Message)
	if left := written.ReplaceAllString(html, ""); strings.ContainsAny(left, "<>") || strings.Contains(html, "<span") {
		t.Fatalf("%+q renders as %s", n.Message, html)
	}
	if spans := strings.Count(html, "<code>"); spans > 3+maxPlatforms {
		t.Fatalf("%+q renders with %d code spans: %s", n.Message, spans, html)
	}
}
