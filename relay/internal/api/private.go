package api

import (
	"net/http"
	"net/url"
	"strings"
)

// private are the parts of a query that hold what people write to each other.
// Tokens and passwords are the log's own business.
var private = map[string]bool{"message": true, "title": true, "extras": true, "q": true}

// hidePrivate returns the request with a request line that may be logged.
func hidePrivate(r *http.Request) *http.Request {
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
