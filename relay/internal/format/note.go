package format

import (
	"html"
	"strings"
)

// Source returns the body below the note, in the markup of the body.
func (m Message) Source() string {
	body := cleanText(m.Body)
	if m.Note == "" {
		return body
	}
	note := strings.ReplaceAll(cleanText(m.Note), "\n", " ")
	switch m.ContentType {
	case Plain:
		return note + "\n\n" + body
	case HTML:
		return "<p>" + html.EscapeString(note) + "</p>\n" + body
	}
	return escapeMarkdown(note) + "\n\n" + body
}

// escapeMarkdown returns Markdown that shows a line as it is.
func escapeMarkdown(line string) string {
	var b strings.Builder
	for i := range len(line) {
		if strings.IndexByte("\\`*_{}[]()<>#+-.!|~&", line[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(line[i])
	}
	return b.String()
}
