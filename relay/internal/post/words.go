package post

import (
	"slices"
	"strings"

	"slipway/relay/internal/format"
)

// Format is the format of an application's messages that name none.
type Format string

// The formats.
const (
	FormatAuto     Format = "auto" // plain where the sender's protocol means plain text, else Markdown
	FormatMarkdown Format = "markdown"
	FormatPlain    Format = "plain"
	FormatHTML     Format = "html"
)

// MediaType resolves the format of a message: the one it names, else the one its application prefers, else own, that of
// the sender's protocol. The result is text/plain, text/html, or "" for Markdown, which unknown formats are, too.
func (f Format) MediaType(named, own string) string {
	named, _, _ = strings.Cut(strings.ToLower(named), ";")
	switch named = strings.TrimSpace(named); {
	case named == format.Plain, named == format.HTML:
		return named
	case named != "":
		return ""
	}
	switch f {
	case FormatHTML:
		return format.HTML
	case FormatPlain:
		return format.Plain
	case FormatMarkdown:
		return ""
	}
	return own
}

// ShowSender is when an application's name precedes the titles of its messages.
type ShowSender string

// The choices.
const (
	ShowAuto   ShowSender = "auto" // where other applications send to the same room
	ShowAlways ShowSender = "always"
	ShowNever  ShowSender = "never"
)

// Scale is the priority scale of an application's senders.
type Scale string

// The priority scales.
const (
	ScaleAuto   Scale = "auto"   // native where the token came in the body or on a native route, else Gotify's
	ScaleNative Scale = "native" // −2 … 2
	ScaleGotify Scale = "gotify" // 0 … 10
)

// The ends of the native priority scale.
const (
	MinPriority = -2
	MaxPriority = 2
)

var priorityWords = []string{"min", "low", "normal", "high", "max"}

// PriorityWord returns the word for a priority: min, low, normal, high or max.
func PriorityWord(p int) string {
	return priorityWords[min(max(p, MinPriority), MaxPriority)-MinPriority]
}

// ParsePriority returns the priority that a word stands for. ok is false for any other text.
func ParsePriority(word string) (p int, ok bool) {
	i := slices.Index(priorityWords, strings.ToLower(strings.TrimSpace(word)))
	return i + MinPriority, i >= 0
}
