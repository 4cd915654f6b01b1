// Package cors decides what pages of other origins may do with the API.
package cors

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Policy lets pages of other origins use the API from a browser. The zero value lets none.
type Policy struct {
	Origins     []string // such as https://ui.example.org; "*" alone is every origin, without credentials
	Methods     []string
	Credentials bool // browsers may send cookies, certificates and remembered logins
	MaxAge      time.Duration
}

const (
	requestHeaders = "Accept, Authorization, Content-Range, Content-Type, If-None-Match, Range"
	answerHeaders  = "Content-Range, Docker-Content-Digest, Docker-Upload-Uuid, Etag, Link, Location, OCI-Filters-Applied, OCI-Subject, Range, Retry-After, WWW-Authenticate, X-Request-Id"
)

// Allow sets the headers for a page's request; false means that its origin is not let
// in, which a browser sees by their absence.
func (p *Policy) Allow(h http.Header, origin string) bool {
	if len(p.Origins) == 0 || origin == "" {
		return false
	}
	h.Add("Vary", "Origin")
	switch {
	case slices.Contains(p.Origins, origin):
		h.Set("Access-Control-Allow-Origin", origin)
	case slices.Contains(p.Origins, "*"):
		h.Set("Access-Control-Allow-Origin", "*")
	default:
		return false
	}
	if p.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	h.Set("Access-Control-Expose-Headers", answerHeaders)
	return true
}

// Refuses reports whether a browser sends a change that a page of another site has caused,
// by Sec-Fetch-Site or, where a browser doesn't send that, by Origin, and that the
// configuration doesn't let that page make: browsers send remembered logins and
// certificates along, even where they don't ask before. own knows the registry's own origin.
func (p *Policy) Refuses(own *http.CrossOriginProtection, r *http.Request) bool {
	if own.Check(r) == nil {
		return false
	}
	origin := slices.Contains(p.Origins, r.Header.Get("Origin")) || slices.Contains(p.Origins, "*")
	return !origin || !slices.Contains(p.Methods, r.Method)
}

// Preflight adds to the answer of OPTIONS what a browser asks before a request.
func (p *Policy) Preflight(h http.Header) {
	h.Set("Access-Control-Allow-Methods", strings.Join(p.Methods, ", "))
	h.Set("Access-Control-Allow-Headers", requestHeaders)
	h.Set("Access-Control-Max-Age", strconv.Itoa(int(p.MaxAge.Seconds())))
}
