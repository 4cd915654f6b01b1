package api

import (
	"net/http"
	"testing"
)

// allows returns the headers by which distribution allows pages of an origin to send the methods.
func allows(origin string, methods ...string) http.Header {
	return http.Header{"access-control-allow-origin": {origin}, "Access-Control-Allow-Methods": methods}
}

// A preflight is answered without a login.
func TestCORS_Preflight(t *testing.T) {
	s := newServer(t, func(s *setup) { s.options.Headers = allows("https://ui.example.org", "GET, HEAD") }, withUser(t, false))
	s.do("OPTIONS", "/v2/a/manifests/x", nil, "Origin", "https://ui.example.org", "Access-Control-Request-Method", "GET").want(
		t, 200, "Access-Control-Allow-Origin", "https://ui.example.org", "Access-Control-Allow-Methods", "GET, HEAD",
	)
	s.do("GET", "/v2/", nil, "Origin", "https://ui.example.org").want(t, 401, "Access-Control-Allow-Origin", "https://ui.example.org")
}

// A page of another site cannot use the login that a browser remembers, where browsers
// do not ask before: with a POST of plain text.
func TestCORS_ChangesByPagesOfOtherSites(t *testing.T) {
	const ui, other = "https://ui.example.org", "https://evil.example.org"
	for _, tt := range []struct {
		name         string
		headers      http.Header
		site, origin string
		want         int
	}{
		{"no browser", nil, "", "", 202},
		{"a browser without Sec-Fetch-Site", nil, "", other, 403},
		{"one that hides the origin", nil, "", "null", 403},
		{"its own page", nil, "", "http://registry.example.org:5000", 202},
		{"its own page behind a proxy", nil, "", "https://public.example.org", 202},
		{"a neighbour on another port", nil, "", "http://registry.example.org:5001", 403},
		{"a page of the registry's own", nil, "same-origin", other, 202},
		{"the user", nil, "none", "", 202},
		{"off", nil, "cross-site", ui, 403},
		{"a neighbour", nil, "same-site", ui, 403},
		{"without an origin", nil, "cross-site", "", 403},
		{"named", allows(ui, "HEAD", "GET, POST"), "same-site", ui, 202},
		{"named, without Sec-Fetch-Site", allows(ui, "POST"), "", ui, 202},
		{"named, for reading", allows(ui, "GET, HEAD"), "same-site", ui, 403},
		{"another", allows(ui, "POST"), "cross-site", other, 403},
		{"every", allows("*", "POST"), "cross-site", other, 403},
		{"named, without an origin", allows("", "POST"), "cross-site", "", 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, func(s *setup) { s.options.Headers, s.options.Host = tt.headers, "https://public.example.org" }, withUser(t, false))
			header := []string{"Authorization", rightUser, "Host", "registry.example.org:5000"}
			if tt.site != "" {
				header = append(header, "Sec-Fetch-Site", tt.site)
			}
			if tt.origin != "" {
				header = append(header, "Origin", tt.origin)
			}
			s.do("POST", "/v2/a/blobs/uploads/", nil, header...).want(t, tt.want)
			s.do("GET", "/v2/", nil, header...).want(t, 200)
		})
	}
}
