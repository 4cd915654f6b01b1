package api

import (
	"net/http"
	"testing"
	"time"

	"slipway/registry/internal/api/cors"
)

func TestCORS(t *testing.T) {
	const ui, other = "https://ui.example.org", "https://evil.example.org"
	with := func(c cors.Policy) func(*setup) { return func(s *setup) { s.options.CORS = c } }
	listed := cors.Policy{Origins: []string{ui}, Methods: []string{"GET", "HEAD"}, MaxAge: 10 * time.Minute}
	credentials := listed
	credentials.Credentials = true
	for _, tt := range []struct {
		name        string
		cors        cors.Policy
		origin      string
		want        string // Access-Control-Allow-Origin
		credentials string
	}{
		{"off", cors.Policy{}, ui, "", ""},
		{"no page", listed, "", "", ""},
		{"listed", listed, ui, ui, ""},
		{"with credentials", credentials, ui, ui, "true"},
		{"another", credentials, other, "", ""},
		{"null", credentials, "null", "", ""},
		{"longer", listed, ui + ".evil.org", "", ""},
		{"other scheme", listed, "http://ui.example.org", "", ""},
		{"every", cors.Policy{Origins: []string{"*"}}, other, "*", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, with(tt.cors))
			header := []string{}
			if tt.origin != "" {
				header = []string{"Origin", tt.origin}
			}
			got := s.do("GET", "/v2/", nil, header...).want(t, 200, "Access-Control-Allow-Origin", tt.want, "Access-Control-Allow-Credentials", tt.credentials)
			if vary := got.Header.Get("Vary"); (vary == "Origin") != (len(tt.cors.Origins) > 0 && tt.origin != "") {
				t.Errorf("Vary is %q", vary)
			}
		})
	}
	s := newServer(t, with(listed), withUser(t, false))
	s.do("OPTIONS", "/v2/a/manifests/x", nil, "Origin", ui, "Access-Control-Request-Method", "GET").want(
		t, 200, "Access-Control-Allow-Origin", ui, "Access-Control-Allow-Methods", "GET, HEAD", "Access-Control-Max-Age", "600", "Access-Control-Allow-Headers", "*",
	)
	s.do("OPTIONS", "/v2/a/manifests/x", nil, "Origin", other, "Access-Control-Request-Method", "GET").want(t, 200, "Access-Control-Allow-Origin", "", "Access-Control-Allow-Methods", "")
	s.do("GET", "/v2/", nil, "Origin", ui).want(t, 401, "Access-Control-Allow-Origin", ui, "Access-Control-Expose-Headers", "*")
}

// A page of another site cannot use the login that a browser remembers, where browsers
// do not ask before: with a POST of plain text.
func TestCORS_ChangesByPagesOfOtherSites(t *testing.T) {
	const ui, other = "https://ui.example.org", "https://evil.example.org"
	fixed := func(origin, methods string) cors.Policy {
		return cors.Policy{Fixed: http.Header{"Access-Control-Allow-Origin": {origin}, "Access-Control-Allow-Methods": {"HEAD", methods}}}
	}
	for _, tt := range []struct {
		name         string
		cors         cors.Policy
		site, origin string
		want         int
	}{
		{"no browser", cors.Policy{}, "", "", 202},
		{"a browser without Sec-Fetch-Site", cors.Policy{}, "", other, 403},
		{"one that hides the origin", cors.Policy{}, "", "null", 403},
		{"its own page", cors.Policy{}, "", "http://registry.example.org:5000", 202},
		{"its own page behind a proxy", cors.Policy{}, "", "https://public.example.org", 202},
		{"a neighbour on another port", cors.Policy{}, "", "http://registry.example.org:5001", 403},
		{"listed, without Sec-Fetch-Site", cors.Policy{Origins: []string{ui}, Methods: []string{"POST"}}, "", ui, 202},
		{"a page of the registry's own", cors.Policy{}, "same-origin", other, 202},
		{"the user", cors.Policy{}, "none", "", 202},
		{"off", cors.Policy{}, "cross-site", ui, 403},
		{"a neighbour", cors.Policy{}, "same-site", ui, 403},
		{"without an origin", cors.Policy{}, "cross-site", "", 403},
		{"another", cors.Policy{Origins: []string{ui}, Methods: []string{"POST"}}, "cross-site", other, 403},
		{"listed, for reading", cors.Policy{Origins: []string{ui}, Methods: []string{"GET"}}, "same-site", ui, 403},
		{"listed", cors.Policy{Origins: []string{ui}, Methods: []string{"POST"}}, "cross-site", ui, 202},
		{"by fixed headers", fixed(ui, "GET, POST"), "same-site", ui, 202},
		{"by fixed headers, without Sec-Fetch-Site", fixed(ui, "POST"), "", ui, 202},
		{"by fixed headers, for reading", fixed(ui, "GET, HEAD"), "same-site", ui, 403},
		{"by fixed headers, another", fixed(ui, "POST"), "cross-site", other, 403},
		{"by fixed headers, every", fixed("*", "POST"), "cross-site", other, 403},
		{"by fixed headers, without an origin", fixed("", "POST"), "cross-site", "", 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, func(s *setup) { s.options.CORS, s.options.Host = tt.cors, "https://public.example.org" }, withUser(t, false))
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
