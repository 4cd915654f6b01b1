package account

import (
	"fmt"
	"slices"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
	"slipway/relay/internal/template"
)

// MarkupOf returns the markup and the media type of what the templates of an application make.
func MarkupOf(f post.Format) (template.Markup, string) {
	switch f {
	case post.FormatHTML:
		return template.HTML, format.HTML
	case post.FormatPlain:
		return template.Plain, format.Plain
	}
	return template.Markdown, ""
}

// mentionAuto mentions the owner from priority 1 on and the room as well from 2 on.
const mentionAuto = "auto"

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
		return mentionAuto, nil
	}
	if slices.Contains([]string{mentionAuto, "room", "owner", "none"}, whom) {
		return whom, nil
	}
	ids := listOf(whom)
	if len(ids) > maxMentions {
		return "", refusal.Invalid("mention", fmt.Sprintf("At most %d people can be mentioned.", maxMentions))
	}
	for _, id := range ids {
		if !isMatrixID(id) {
			return "", refusal.Invalid("mention", "mention must be auto, room, owner, none, or Matrix IDs such as @name:server.")
		}
	}
	return strings.Join(slices.Compact(ids), " "), nil
}
