package store

import (
	"strconv"
	"strings"

	"slipway/relay/internal/post"
)

// Kinds in statements. They are part of the text, so that the database sees when a partial index fits.
var (
	isMessage   = ` = ` + number(post.KindMessage)
	isNoMessage = ` <> ` + number(post.KindMessage)
	isRedaction = ` = ` + number(post.KindRedaction)
	isNews      = among(post.KindEdit, post.KindReply)                   // what follows a message
	isRead      = among(post.KindMessage, post.KindEdit, post.KindReply) // what readers get: the condition of an index
)

func number(k post.Kind) string { return strconv.Itoa(int(k)) }

func among(kinds ...post.Kind) string {
	var all []string
	for _, k := range kinds {
		all = append(all, number(k))
	}
	return ` IN (` + strings.Join(all, `, `) + `)`
}
