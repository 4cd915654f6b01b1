package web

import (
	"html"
	"html/template"
	"regexp"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	templates "slipway/relay/internal/template"
	ui "slipway/shared/web"
)

// words are the functions of the relay's own templates.
var words = template.FuncMap{
	"priority":        post.PriorityWord,
	"templateParts":   func() []string { return []string{"title", "text", "priority", "link"} },
	"templatePresets": templates.Presets,
	"priorities":      func() []int { return []int{2, 1, 0, -1, -2} },
	"states":          func() []post.State { return post.States },
	"preview":         preview,
	"outcome":         outcome,
	"size":            format.Size,
	"moment":          post.Time,
}

// outcome returns the note of a message whose alert has ended, "" for other notes.
func outcome(note string) string {
	if strings.HasPrefix(note, "✅") {
		return note
	}
	return ""
}

// preview returns the beginning of a message as readers see it.
func preview(n int, c post.Content) string {
	kind := c.ContentType
	if kind == "" {
		kind = format.Markdown
	}
	page, _ := format.Body(kind, strings.ToValidUTF8(c.Body[:min(len(c.Body), 8*n)], ""))
	return ui.Excerpt(n, html.UnescapeString(block.ReplaceAllString(inline.ReplaceAllString(page, ""), " ")))
}

// Tags in sanitized HTML, where a "<" always begins one. The text form has the address behind each link, which says little in a list.
var (
	inline = regexp.MustCompile(`</?(?:a|b|strong|em|i|u|s|del|code|span|font|sub|sup)(?: [^>]*)?>`)
	block  = regexp.MustCompile(`<[^>]*>`)
)
