package logging

import (
	"net/url"
	"strings"
)

const hidden = "***"

// RedactURI returns the URI without secrets that must not be logged: upload
// states (`_state`) are dropped with their name, the values of tokens and
// passwords and a password before the host become `***`. A URI without any of
// them is returned as it is, without allocation.
func RedactURI(uri string) string {
	if strings.Contains(uri, "://") {
		uri = redactUserinfo(uri)
	}
	path, query, found := strings.Cut(uri, "?")
	if !found || !holdsSecret(query) {
		return uri
	}
	var b strings.Builder
	b.WriteString(path)
	separator := byte('?')
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		kind := secrecy(name)
		if kind == dropped {
			continue
		}
		b.WriteByte(separator)
		separator = '&'
		if kind == masked {
			b.WriteString(name + "=" + hidden)
			continue
		}
		b.WriteString(pair)
	}
	return b.String()
}

func holdsSecret(query string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); secrecy(name) != open {
			return true
		}
	}
	return false
}

// secret describes how a query parameter is redacted.
type secret int

const (
	open secret = iota
	masked
	dropped
)

// secrecy judges a parameter by its name, in any case and also when its letters
// are percent-encoded.
func secrecy(name string) secret {
	if strings.ContainsAny(name, "%+") {
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
	}
	if strings.EqualFold(name, "_state") {
		return dropped
	}
	for _, s := range [...]string{
		"token", "auth", "password", "passwd", "secret", "authorization",
		"access_token", "refresh_token", "id_token", "client_secret", "code",
	} {
		if strings.EqualFold(name, s) {
			return masked
		}
	}
	return open
}

// redactUserinfo hides the password of an absolute URI (http://u:p@host/).
func redactUserinfo(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri
	}
	host, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(host, '@')
	if at < 0 {
		return uri
	}
	user, _, ok := strings.Cut(host[:at], ":")
	if !ok {
		return uri
	}
	return scheme + "://" + user + ":" + hidden + rest[at:]
}
