package config

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// minSecret is the shortest acceptable secret, in characters.
const minSecret = 16

// examples are secrets of documentation and examples, of this registry and of CNCF distribution, in
// lower case. Everybody knows them.
var examples = []string{
	"asecretforlocaldevelopment", "a-long-random-string", "a-long-random-text", "the-same-long-random-text-at-all-replicas",
	"a-client-secret", "placeholder", "changeme", "change-me", "secret", "mysecret", "supersecret", "haredsecret",
	"somerandomlongstring", "some-long-random-string", "thisisasecret", "registry-http-secret", "registry_http_secret",
	"averylongrandomstring", "randomsecret", "mysupersecretkey", "yoursecrethere", "your-secret-here",
}

// weakness describes why a secret can be guessed, "" if that isn't known.
func weakness(secret string) string {
	distinct := map[rune]bool{}
	for _, r := range secret {
		distinct[r] = true
	}
	switch {
	case slices.Contains(examples, strings.ToLower(strings.TrimSpace(secret))), strings.Contains(secret, "openssl rand"):
		return "is an example that everybody knows"
	case utf8.RuneCountInString(secret) < minSecret:
		return "is shorter than 16 characters"
	case len(distinct) < 5:
		return "repeats a few characters"
	}
	return ""
}
