package config

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// minSecret is the shortest acceptable secret, in characters.
const minSecret = 16

// examples are secrets of documentation and examples, of these services and of CNCF distribution, in
// lower case. Everybody knows them.
var examples = []string{
	"asecretforlocaldevelopment", "a-long-random-string", "a-long-random-text", "the-same-long-random-text-at-all-replicas",
	"a-client-secret", "haredsecret", "somerandomlongstring", "some-long-random-string", "thisisasecret",
	"registry-http-secret", "registry_http_secret", "averylongrandomstring", "randomsecret", "mysupersecretkey", "yoursecrethere", "your-secret-here",
}

// obvious replaces common words and keyboard rows by one character each and removes separators.
var obvious = strings.NewReplacer(func() (pairs []string) {
	for _, word := range []string{
		"changeme", "change-me", "change_me", "changeit", "placeholder", "supersecret", "mysecret", "secret", "password", "passw0rd", "passwort", "letmein",
		"welcome", "default", "example", "admin", "test", "registry", "relay", "slipway",
		"deadbeef", "cafebabe", "badc0ffee", "coffee", "qwertyuiop", "qwertzuiop", "qwerty", "qwertz", "asdfghjkl", "asdfgh", "zxcvbnm", "1q2w3e4r", "5t6y7u8i", "1qaz2wsx",
	} {
		pairs = append(pairs, word, "\x00")
	}
	return append(pairs, "-", "", "_", "", ".", "", " ", "")
}()...)

// Weakness describes why a secret can be guessed, "" if that isn't known.
func Weakness(secret string) string {
	lower := strings.ToLower(strings.TrimSpace(secret))
	switch {
	case slices.Contains(examples, lower), strings.Contains(secret, "openssl rand"):
		return "is an example that everybody knows"
	case utf8.RuneCountInString(lower) < minSecret:
		return "is shorter than 16 characters"
	case repeats(lower):
		return "repeats a few characters"
	case steps(obvious.Replace(lower)) < 6:
		return "consists of words and rows of characters that everybody tries"
	}
	return ""
}

// repeats reports whether a text has fewer than 5 different characters or 10 different groups of three. Of two million
// random texts of 16 hexadecimal digits, one had.
func repeats(s string) bool {
	const fewest, fewestGroups = 5, 10
	runes := []rune(s)
	distinct, groups := map[rune]bool{}, map[[3]rune]bool{}
	for i, r := range runes {
		distinct[r] = true
		if i >= 2 {
			groups[[3]rune(runes[i-2:i+1])] = true
		}
	}
	return len(distinct) < fewest || len(groups) < fewestGroups
}

// steps counts the characters of a text that don't continue a row, such as 0123 or cba.
func steps(s string) (n int) {
	last := rune(-2)
	for _, r := range s {
		if d := r - last; d < -1 || d > 1 {
			n++
		}
		last = r
	}
	return n
}
