package logging

import (
	"net/url"
	"strings"
)

const hidden = "***"

// RedactURI returns the URI with the values of secret query parameters
// (`_state`, tokens, passwords) and a password before the host replaced by
// `***`. A URI without any of them is returned as it is, without allocation.
func RedactURI(uri string) string {
	path, query, found := strings.Cut(uri, "?")
	path = redactUserinfo(path)
	if !found {
		return path
	}
	if redacted, changed := redactQuery(query); changed {
		return path + "?" + redacted
	}
	if len(path)+1+len(query) == len(uri) && strings.HasPrefix(uri, path) {
		return uri
	}
	return path + "?" + query
}

func redactQuery(query string) (string, bool) {
	changed := false
	for pair := range strings.SplitAfterSeq(query, "&") {
		if name, _, ok := strings.Cut(pair, "="); ok && secretName(name) {
			changed = true
			break
		}
	}
	if !changed {
		return query, false
	}
	var b strings.Builder
	for pair := range strings.SplitAfterSeq(query, "&") {
		name, _, ok := strings.Cut(pair, "=")
		if !ok || !secretName(name) {
			b.WriteString(pair)
			continue
		}
		b.WriteString(name + "=" + hidden)
		if strings.HasSuffix(pair, "&") {
			b.WriteByte('&')
		}
	}
	return b.String(), true
}

// secretName knows a parameter whose value may not be written, in any case and
// also when its letters are percent-encoded.
func secretName(name string) bool {
	if strings.ContainsAny(name, "%+") {
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
	}
	for _, secret := range [...]string{
		"_state", "token", "auth", "password", "access_token", "refresh_token",
		"id_token", "authorization", "secret", "client_secret", "passwd",
	} {
		if strings.EqualFold(name, secret) {
			return true
		}
	}
	return false
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
