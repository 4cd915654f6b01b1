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
	"stateNote":       func(s post.State) string { return stateNotes[s] },
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

// stateNotes explain a state and what comes next.
var stateNotes = map[post.State]string{
	post.StateQueued:    "It is waiting to be sent.",
	post.StateRetryWait: "An attempt failed; the relay retries automatically.",
	post.StateBlocked:   "It waits until the cause is fixed, and is then sent automatically.",
	post.StateSent:      "The homeserver (the Matrix server that the relay sends to) accepted it.",
	post.StateAmbiguous: "It was sent, but the answer was lost and the room's history does not show whether it arrived. Check the room, then redeliver or withdraw it.",
	post.StateDead:      "The relay has stopped trying. You can redeliver it.",
	post.StateCancelled: "It was withdrawn before it was sent.",
	post.StateRedacted:  "It was sent and later removed from the room.",
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
