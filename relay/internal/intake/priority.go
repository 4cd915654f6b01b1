package intake

import (
	"fmt"
	"strings"

	"slipway/relay/internal/account"
	"slipway/relay/internal/format"
	"slipway/relay/internal/message"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// effectivePriority applies the application's scale. With ScaleAuto a priority is native where the token came in
// the body or on a native route; elsewhere it is meant as the sender's protocol means it.
func effectivePriority(app *store.Application, r Request) (int, error) {
	if r.Priority == nil {
		return app.DefaultPriority, nil
	}
	scale := account.Scale(app.PriorityScale)
	if r.Translated != nil && (scale == account.ScaleGotify || scale != account.ScaleNative && !r.NativeScale) {
		return *r.Translated, nil
	}
	p := *r.Priority
	if p < message.MinPriority || p > message.MaxPriority {
		return 0, refusal.Invalid("priority", fmt.Sprintf("A priority is a number from %d to %d.", message.MinPriority, message.MaxPriority))
	}
	return p, nil
}

// contentType is that of the message, or the one that its application prefers. Types that rendering does not know
// are Markdown, which is "".
func contentType(app *store.Application, r Request) string {
	s, _, _ := strings.Cut(strings.ToLower(r.ContentType), ";")
	switch s = strings.TrimSpace(s); {
	case s == format.Plain, s == format.HTML:
		return s
	case s != "":
		return ""
	}
	switch f := account.Format(app.DefaultFormat); {
	case f == account.FormatHTML:
		return format.HTML
	case f == account.FormatPlain, f == account.FormatAuto && r.PlainProtocol:
		return format.Plain
	}
	return ""
}
