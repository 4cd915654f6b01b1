package application

import (
	"fmt"
	"slices"
	"strings"

	"slipway/relay/internal/alert"
	"slipway/relay/internal/format"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
	"slipway/relay/internal/template"
)

// Lifecycle is how an application's messages follow what they are about.
type Lifecycle = alert.Lifecycle

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

// Markup returns the markup and the media type of what the templates of an application make.
func (f Format) Markup() (template.Markup, string) {
	switch f {
	case FormatHTML:
		return template.HTML, format.HTML
	case FormatPlain:
		return template.Plain, format.Plain
	}
	return template.Markdown, ""
}

// Scale is the priority scale of an application's senders.
type Scale string

// The priority scales.
const (
	ScaleAuto   Scale = "auto"   // native where the token came in the body or on a native route, else Gotify's
	ScaleNative Scale = "native" // −2 … 2
	ScaleGotify Scale = "gotify" // 0 … 10
)

// MentionAuto mentions the owner from priority 1 on and the room as well from 2 on.
const MentionAuto = "auto"

const maxMentions = 20

func setMention(row *store.Application, whom *string) (err error) {
	if whom != nil {
		row.Mention, err = checkMention(*whom)
	}
	return err
}

// checkMention checks and normalizes a mention: auto, room, owner, none, or Matrix IDs separated by commas or spaces.
func checkMention(whom string) (string, error) {
	whom = strings.TrimSpace(whom)
	if whom == "" {
		return MentionAuto, nil
	}
	if slices.Contains([]string{MentionAuto, "room", "owner", "none"}, whom) {
		return whom, nil
	}
	ids := List(whom)
	if len(ids) > maxMentions {
		return "", refusal.Invalid("mention", fmt.Sprintf("At most %d people can be mentioned.", maxMentions))
	}
	for _, id := range ids {
		if !IsMatrixID(id) {
			return "", refusal.Invalid("mention", "mention must be auto, room, owner, none, or Matrix IDs such as @name:server.")
		}
	}
	return strings.Join(slices.Compact(ids), " "), nil
}
