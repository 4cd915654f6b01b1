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
// the body or on a native route; elsewhere it is a client of Gotify that speaks, whose 1 means low and 5 normal.
func effectivePriority(app *store.Application, r Request) (int, error) {
	if r.Priority == nil {
		return app.DefaultPriority, nil
	}
	p := *r.Priority
	if account.Scale(app.PriorityScale) == account.ScaleGotify || account.Scale(app.PriorityScale) != account.ScaleNative && !r.NativeScale {
		return fromGotify(p), nil
	}
	if p < message.MinPriority || p > message.MaxPriority {
		return 0, refusal.Invalid("priority", fmt.Sprintf("A priority is a number from %d to %d.", message.MinPriority, message.MaxPriority))
	}
	return p, nil
}

// fromGotify translates Gotify's habit: 1–3 low, 4–7 normal, 8–9 high, from 10 on the highest.
func fromGotify(p int) int {
	switch {
	case p < 0:
		return -1
	case p == 0:
		return 0
	case p <= 3:
		return -1
	case p <= 7:
		return 0
	case p <= 9:
		return 1
	default:
		return 2
	}
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
