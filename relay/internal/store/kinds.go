package store

import (
	"strconv"
	"strings"

	"slipway/relay/internal/outbox"
)

// Kinds in statements. They are part of the text, so that the database sees when a partial index fits.
var (
	isMessage   = ` = ` + number(outbox.Message)
	isNoMessage = ` <> ` + number(outbox.Message)
	isRedaction = ` = ` + number(outbox.Redaction)
	isNews      = among(outbox.Edit, outbox.Reply)                 // what follows a message
	isRead      = among(outbox.Message, outbox.Edit, outbox.Reply) // what readers get: the condition of an index
)

func number(k outbox.Kind) string { return strconv.Itoa(int(k)) }

func among(kinds ...outbox.Kind) string {
	var all []string
	for _, k := range kinds {
		all = append(all, number(k))
	}
	return ` IN (` + strings.Join(all, `, `) + `)`
}
