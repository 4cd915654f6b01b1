package web

import (
	"html"
	"html/template"
	"regexp"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/markup"
	"slipway/relay/internal/message"
	"slipway/relay/internal/outbox"
	templates "slipway/relay/internal/template"
	ui "slipway/shared/web"
)

// words are the functions of the relay's own templates.
var words = template.FuncMap{
	"state":           stateWord,
	"stateNote":       stateNote,
	"priority":        priorityWord,
	"templateParts":   func() []string { return []string{"title", "text", "priority", "link"} },
	"templatePresets": templates.Presets,
	"priorities":      func() []int { return []int{2, 1, 0, -1, -2} },
	"states":          func() []outbox.State { return outbox.States },
	"preview":         preview,
	"outcome":         outcome,
	"size":            markup.Size,
	"moment":          moment,
}

func stateWord(s outbox.State) string {
	switch s {
	case outbox.StateQueued:
		return "queued"
	case outbox.StateRetryWait:
		return "retrying"
	case outbox.StateBlocked:
		return "blocked"
	case outbox.StateSent:
		return "delivered"
	case outbox.StateAmbiguous:
		return "unclear"
	case outbox.StateDead:
		return "given up"
	case outbox.StateRedacted:
		return "removed"
	}
	return string(s)
}

// stateNote explains a state and what comes next.
func stateNote(s outbox.State) string {
	switch s {
	case outbox.StateQueued:
		return "It is waiting to be sent."
	case outbox.StateRetryWait:
		return "An attempt failed; the relay retries automatically."
	case outbox.StateBlocked:
		return "It waits until the cause is fixed, and is then sent automatically."
	case outbox.StateSent:
		return "The homeserver (the Matrix server that the relay sends to) accepted it."
	case outbox.StateAmbiguous:
		return "It was sent, but the answer was lost and the room's history does not show whether it arrived. Check the room, then deliver it again or withdraw it."
	case outbox.StateDead:
		return "The relay has stopped trying. You can deliver it again."
	case outbox.StateCancelled:
		return "It was withdrawn before it was delivered."
	case outbox.StateRedacted:
		return "It was delivered and later removed from the room."
	}
	return ""
}

func priorityWord(p int) string {
	switch {
	case p >= 2:
		return "highest"
	case p == 1:
		return "high"
	case p == 0:
		return "normal"
	case p == -1:
		return "low"
	}
	return "lowest"
}

// outcome returns the note of a message whose alert has ended, "" for other notes.
func outcome(note string) string {
	if strings.HasPrefix(note, "✅") {
		return note
	}
	return ""
}

// preview returns the beginning of a message as readers see it.
func preview(n int, m message.Message) string {
	kind := m.ContentType
	if kind == "" {
		kind = format.Markdown
	}
	page, _ := format.Body(kind, strings.ToValidUTF8(m.Body[:min(len(m.Body), 8*n)], ""))
	page = image.ReplaceAllString(page, "$1")
	return ui.Excerpt(n, html.UnescapeString(block.ReplaceAllString(inline.ReplaceAllString(page, ""), " ")))
}

// Tags in sanitized HTML, where a "<" always begins one. The text form has the address behind each link, which says little in a list.
var (
	image  = regexp.MustCompile(`<img [^>]*alt="([^"]*)"[^>]*>`)
	inline = regexp.MustCompile(`</?(?:a|b|strong|em|i|u|s|del|code|span|font|sub|sup)(?: [^>]*)?>`)
	block  = regexp.MustCompile(`<[^>]*>`)
)
