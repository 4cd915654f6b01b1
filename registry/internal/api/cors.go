package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CORS lets pages of other origins use the API from a browser. The zero value lets none.
type CORS struct {
	Origins     []string // such as https://ui.example.org; "*" alone is every origin, without credentials
	Methods     []string
	Credentials bool // browsers may send cookies, certificates and remembered logins
	MaxAge      time.Duration
}

const (
	corsRequestHeaders = "Accept, Authorization, Content-Range, Content-Type, If-None-Match, Range"
	corsAnswerHeaders  = "Content-Range, Docker-Content-Digest, Docker-Upload-Uuid, Etag, Link, Location, OCI-Filters-Applied, OCI-Subject, Range, Retry-After, WWW-Authenticate, X-Request-Id"
)

// allow sets the headers for a page's request; false means that its origin is not let
// in, which a browser sees by their absence.
func (c *CORS) allow(h http.Header, origin string) bool {
	if len(c.Origins) == 0 || origin == "" {
		return false
	}
	h.Add("Vary", "Origin")
	switch {
	case slices.Contains(c.Origins, origin):
		h.Set("Access-Control-Allow-Origin", origin)
	case slices.Contains(c.Origins, "*"):
		h.Set("Access-Control-Allow-Origin", "*")
	default:
		return false
	}
	if c.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	h.Set("Access-Control-Expose-Headers", corsAnswerHeaders)
	return true
}

// refuses reports whether a browser sends a change that a page of another site has caused,
// by Sec-Fetch-Site or, where a browser doesn't send that, by Origin, and that the
// configuration doesn't let that page make: browsers send remembered logins and
// certificates along, even where they don't ask before. own knows the registry's own origin.
func (c *CORS) refuses(own *http.CrossOriginProtection, r *http.Request) bool {
	if own.Check(r) == nil {
		return false
	}
	origin := slices.Contains(c.Origins, r.Header.Get("Origin")) || slices.Contains(c.Origins, "*")
	return !origin || !slices.Contains(c.Methods, r.Method)
}

// preflight adds to the answer of OPTIONS what a browser asks before a request.
func (c *CORS) preflight(h http.Header) {
	h.Set("Access-Control-Allow-Methods", strings.Join(c.Methods, ", "))
	h.Set("Access-Control-Allow-Headers", corsRequestHeaders)
	h.Set("Access-Control-Max-Age", strconv.Itoa(int(c.MaxAge.Seconds())))
}
