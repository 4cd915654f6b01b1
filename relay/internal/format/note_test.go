package format

import (
	"encoding/json"
	"strings"
	"testing"
)

// A note is shown as it is, above a body of any markup, also one that is never closed.
func TestNote(t *testing.T) {
	const note = "✅ Resolved after 5 min. Acknowledged by @a_b*c:hs.example <x>."
	for contentType, body := range map[string]string{Plain: "the *body*", HTML: "<pre>the <b>body", Markdown: "```\nthe body", "": "- the body"} {
		var c struct {
			Body      string `json:"body"`
			Formatted string `json:"formatted_body"`
		}
		if err := json.Unmarshal(Render(Message{Title: "T", Note: note, Body: body, ContentType: contentType}, Options{}).Content, &c); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(c.Body, note) || strings.Index(c.Body, note) > strings.Index(c.Body, "body") {
			t.Errorf("%s: %s", contentType, c.Body)
		}
		if contentType != Plain && !strings.Contains(c.Formatted, "@a_b*c:hs.example &lt;x&gt;.") {
			t.Errorf("%s: %s", contentType, c.Formatted)
		}
	}
}
