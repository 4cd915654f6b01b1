// Package cors decides what pages of other origins may do with the API.
package cors

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Policy allows pages of other origins to use the API from a browser. The zero value allows none.
type Policy struct {
	Origins     []string // such as https://ui.example.org; "*" alone is every origin, without credentials
	Methods     []string
	Credentials bool // browsers may send cookies, certificates and remembered logins
	MaxAge      time.Duration

	// Fixed are headers that the operator adds to every answer: with distribution, that is how
	// pages of other origins are allowed.
	Fixed http.Header
}

const (
	requestHeaders = "Accept, Authorization, Content-Range, Content-Type, If-None-Match, Range"
	answerHeaders  = "Content-Range, Docker-Content-Digest, Docker-Upload-Uuid, Etag, Link, Location, OCI-Filters-Applied, OCI-Subject, Range, Retry-After, WWW-Authenticate, X-Request-Id"
)

// Allow sets the headers for a request of a page. It returns false, and sets only Vary, if the
// origin of the page is not allowed.
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

// Refuses reports whether a browser sent a change on behalf of another site's page that the policy
// does not allow. It goes by Sec-Fetch-Site or, if that is missing, by Origin. Browsers attach
// remembered logins and certificates even without a preflight. own knows the registry's own origin.
func (p *Policy) Refuses(own *http.CrossOriginProtection, r *http.Request) bool {
	if own.Check(r) == nil {
		return false
	}
	origin := slices.Contains(p.Origins, r.Header.Get("Origin")) || slices.Contains(p.Origins, "*")
	return (!origin || !slices.Contains(p.Methods, r.Method)) && !p.fixedAllow(r)
}

// fixedAllow reports whether the fixed headers name both the origin and the method: *, which
// distribution's documentation shows, was not written with this page in mind.
func (p *Policy) fixedAllow(r *http.Request) bool {
	origin, methods := r.Header.Get("Origin"), strings.Join(p.Fixed.Values("Access-Control-Allow-Methods"), ",")
	return origin != "" && slices.Contains(p.Fixed.Values("Access-Control-Allow-Origin"), origin) &&
		slices.ContainsFunc(strings.Split(methods, ","), func(m string) bool { return strings.TrimSpace(m) == r.Method })
}

// Preflight adds the headers of an answer to a preflight request.
func (p *Policy) Preflight(h http.Header) {
	h.Set("Access-Control-Allow-Methods", strings.Join(p.Methods, ", "))
	h.Set("Access-Control-Allow-Headers", requestHeaders)
	h.Set("Access-Control-Max-Age", strconv.Itoa(int(p.MaxAge.Seconds())))
}
