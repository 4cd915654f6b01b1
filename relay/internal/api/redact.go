package api

import (
	"net/http"
	"strings"
)

// shownParameters are the query parameters whose values may be logged. All others may hold a token or a message.
var shownParameters = map[string]bool{
	"wait": true, "state": true, "limit": true, "since": true, "after": true, "until": true, "before": true, "application": true, "appid": true, "priority": true,
}

// redact returns the request with a request line that may be logged: segments of the path that are neither part of a
// route nor a number may be tokens.
func (a *API) redact(r *http.Request) *http.Request {
	path, query, found := strings.Cut(r.RequestURI, "?")
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if !a.words[s] && strings.Trim(s, "0123456789") != "" && (len(segments) < 2 || segments[1] != "ui") {
			segments[i] = "***"
		}
	}
	uri := strings.Join(segments, "/")
	if found {
		pairs := strings.Split(query, "&")
		for i, pair := range pairs {
			if name, _, _ := strings.Cut(pair, "="); !shownParameters[name] {
				pairs[i] = name + "=***"
			}
		}
		uri += "?" + strings.Join(pairs, "&")
	}
	if uri == r.RequestURI {
		return r
	}
	out := *r
	out.RequestURI = uri
	return &out
}
