package api

import (
	"net/http"
	"net/url"
	"strings"
)

// private are the parameters that hold what people write to each other. Tokens
// and passwords are redacted by the log itself.
var private = map[string]bool{"message": true, "title": true, "extras": true, "q": true}

// redactQuery returns the request with a request line that may be logged.
func redactQuery(r *http.Request) *http.Request {
	path, query, found := strings.Cut(r.RequestURI, "?")
	if !found {
		return r
	}
	pairs := strings.Split(query, "&")
	hidden := false
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err != nil || private[plain] {
			pairs[i], hidden = name+"=***", true
		}
	}
	if !hidden {
		return r
	}
	out := *r
	out.RequestURI = path + "?" + strings.Join(pairs, "&")
	return &out
}
