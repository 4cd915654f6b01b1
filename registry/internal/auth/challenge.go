package auth

import (
	"net/http"
	"strconv"
	"strings"
)

// challenge returns the header that asks clients to log in.
type challenge struct {
	basic string // the value for Basic; "" = Bearer, or none if there is no realm

	realm   func(*http.Request) string // URL of the token service
	service string
}

// value is the header for a request that was refused; failure is "", invalid_token
// or insufficient_scope. It is "" if logging in is not possible.
func (c *challenge) value(r *http.Request, a Access, failure string) string {
	if c.basic != "" || c.realm == nil {
		return c.basic
	}
	var b strings.Builder
	b.WriteString("Bearer realm=" + strconv.Quote(c.realm(r)) + ",service=" + strconv.Quote(c.service))
	if scope := a.scope(); scope != "" {
		b.WriteString(`,scope="` + scope + `"`)
	}
	if failure != "" {
		b.WriteString(`,error="` + failure + `"`)
	}
	return b.String()
}

// scope lists what a token has to be issued for: "repository:a:pull,push
// repository:b:pull".
func (a Access) scope() string {
	var b strings.Builder
	var last Record
	for _, r := range a.records() {
		switch {
		case r.Type == last.Type && r.Name == last.Name:
			b.WriteString("," + r.Action)
		case b.Len() > 0:
			b.WriteByte(' ')
			fallthrough
		default:
			b.WriteString(r.Type + ":" + r.Name + ":" + r.Action)
		}
		last = r
	}
	return b.String()
}
