package api

import (
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
)

// errRedirected refuses the GET of a sender. Gotify answers 403, too.
var errRedirected = refusal.Forbidden("An application's token sends by POST. If this was a POST, a redirect made a GET of it, and the message is lost: use the address that the redirect leads to, such as https:// in place of http://. " +
	"To list messages, add a filter such as ?limit=50, or the headers Authorization and Accept: application/json.")

// unlessRedirected refuses a list to an application's token that may have come with a POST: clients make a GET without a body of one
// that is redirected by 301 or 302, and take the answer 200 for that of their message.
func (a *API) unlessRedirected(h userHandler) userHandler {
	return func(w http.ResponseWriter, r *http.Request, v account.Principal) error {
		if v.ApplicationID != 0 && !asksForList(r) {
			a.log.Info("list refused to a sender: its POST was probably redirected by HTTP 301 or 302, and its message is lost", zap.Int64("application", v.ApplicationID), zap.String("path", r.URL.Path))
			return errRedirected
		}
		return h(w, r, v)
	}
}

// hasBearer reports whether a request comes from a program: browsers show the pages with a cookie.
func hasBearer(r *http.Request) bool {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer")
}

// refusePage refuses a program what would be a page: ntfy's clients post to its path, and take the answer 200 for that of their message.
func refusePage(http.ResponseWriter, *http.Request) error { return errRedirected }

// messageFields are parameters of messages, which no list has.
var messageFields = []string{"message", "title", "priority"}

// asksForList reports whether an application's GET is meant: there is a filter, or JSON is all that is accepted and the token isn't where
// Gotify's senders put it.
func asksForList(r *http.Request) bool {
	filters := 0
	for name := range r.URL.Query() {
		if slices.Contains(messageFields, name) {
			return false
		}
		if name != "token" {
			filters++
		}
	}
	accept, _, _ := strings.Cut(r.Header.Get("Accept"), ";")
	return filters > 0 || !protocol.HasSenderToken(r) && strings.EqualFold(strings.TrimSpace(accept), "application/json")
}
