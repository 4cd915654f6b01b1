package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"slipway/relay/internal/format"
	"slipway/relay/internal/message"
	"slipway/relay/internal/outbox"
)

// words are the functions of the templates.
var words = template.FuncMap{
	"ago":        func(t time.Time) string { return ago(time.Now(), t) },
	"future":     func(t time.Time) bool { return t.After(time.Now()) },
	"until":      func(t time.Time) string { return remaining(time.Until(t)) },
	"span":       span,
	"remaining":  remaining,
	"stamp":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"iso":        func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"state":      stateWord,
	"stateNote":  stateNote,
	"priority":   priorityWord,
	"priorities": func() []int { return []int{2, 1, 0, -1, -2} },
	"states":     func() []outbox.State { return outbox.States },
	"count":      count,
	"join":       strings.Join,
	"initial":    initial,
	"excerpt":    excerpt,
	"preview":    preview,
	"sentence":   sentence,
	"dict":       dict,
}

// ago describes how long ago t was.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	if d < 5*time.Second {
		return "just now"
	}
	return span(d) + " ago"
}

// span formats a duration in its largest unit.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours())/24) + " days"
}

// remaining formats a rounded time to wait: 23:59:59 is a day.
func remaining(d time.Duration) string {
	if d = d.Round(time.Second); d > time.Minute {
		d = d.Round(time.Minute)
	}
	return span(d)
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

// count formats a number with thin spaces between thousands.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// initial returns a name's first letter.
func initial(name string) string {
	_, size := utf8.DecodeRuneInString(name)
	return name[:size]
}

// excerpt returns the beginning of a text on one line.
func excerpt(n int, text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text[:min(len(text), 8*n)], "")), " ")
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return strings.TrimRight(string(runes[:n]), " ") + "…"
}

// preview returns the beginning of a message as readers see it.
func preview(n int, m message.Message) string {
	kind := m.ContentType
	if kind == "" {
		kind = format.Markdown
	}
	_, text := format.Body(kind, strings.ToValidUTF8(m.Body[:min(len(m.Body), 8*n)], ""))
	return excerpt(n, text)
}

// sentence adds a capital letter and a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}

// dict passes several values to a template.
func dict(pairs ...any) (map[string]any, error) {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("%v is not a name", pairs[i])
		}
		m[key] = pairs[i+1]
	}
	return m, nil
}
