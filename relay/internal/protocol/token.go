package protocol

import (
	"encoding/base64"
	"net/http"
	"strings"

	"slipway/relay/internal/refusal"
)

// TokenOf returns the token in the headers or the query of any request, "" if there is none: in Authorization as Bearer
// or as the password of Basic, in X-Gotify-Key, or in ?token=. Two different tokens are an error.
func TokenOf(r *http.Request) (string, error) { return tokensOf(r).one() }

// HasSenderToken reports whether a request has a token where only clients of Gotify and PushBits put it: in X-Gotify-Key or in ?token=.
func HasSenderToken(r *http.Request) bool { return tokensOf(r).gotify }

// Token returns the token in the path's {token} or, as [TokenOf] does, elsewhere. It is the [Protocol]'s Token unless the token is in
// the body or has a name of its own.
func Token(r *Request) (string, error) {
	t := tokensOf(r.Request)
	t.add(r.Path["token"])
	return t.one()
}

// tokens collects the tokens of a request. Its zero value is empty.
type tokens struct {
	found  string
	mixed  bool
	gotify bool // it is where only clients of Gotify and PushBits put it
}

// add takes a token; an empty one counts as none.
func (t *tokens) add(token string) {
	switch {
	case token == "":
	case t.found == "":
		t.found = token
	case t.found != token:
		t.mixed = true
	}
}

var errTwoTokens = &refusal.Error{Kind: refusal.KindUnauthorized, Field: "token", Message: "The request has two different tokens."}

// one returns the only token.
func (t *tokens) one() (string, error) {
	if t.mixed {
		return "", errTwoTokens
	}
	return t.found, nil
}

func tokensOf(r *http.Request) *tokens {
	t := &tokens{}
	for _, h := range r.Header["Authorization"] {
		t.add(Authorization(h))
	}
	for _, key := range r.Header["X-Gotify-Key"] {
		t.add(strings.TrimSpace(key))
		t.gotify = true
	}
	if strings.Contains(r.URL.RawQuery, "token") {
		for _, q := range r.URL.Query()["token"] {
			t.add(q)
			t.gotify = true
		}
	}
	return t
}

// Authorization returns the token in a header Authorization, "" if there is none.
func Authorization(header string) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return strings.TrimSpace(rest)
	case strings.EqualFold(scheme, "Basic"):
		_, password, _ := basic(rest)
		return password
	}
	return ""
}

func basic(encoded string) (name, password string, ok bool) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(raw), ":")
}
