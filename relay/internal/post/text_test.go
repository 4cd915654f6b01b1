package post

import (
	"crypto/sha256"
	"strings"
	"testing"
)

func TestHideToken(t *testing.T) {
	for token, want := range map[string]string{"secret-token": "…, …/x", " secret-token\n": "…, …/x", "secret": "secret-token, secret-token/x", "": "secret-token, secret-token/x"} {
		if got := HideToken("secret-token, secret-token/x", token); got != want {
			t.Errorf("%q: %q", token, got)
		}
	}
	for text, want := range map[string]string{
		"a\nsecr\x00et-to\u200bken\x01.": "a\n….", "secr et-token": "secr et-token", "se\x00cr et-token": "se\x00cr et-token",
	} {
		if got := HideToken(text, "secret-token"); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	for text, want := range map[string]bool{
		"**secr**et-token": true, "&#115;ecret-token": true, "secret": false, "token-secret": false,
		"<b>secr</b>et-token": true, "secr&shy;et-token": true, "see care let - to keen": false,
	} {
		if MayJoin(text, "secret-token") != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestHideHashed(t *testing.T) {
	long, short := "A"+strings.Repeat("b", TokenLength-1), "A"+strings.Repeat("2", StrictLength-1)
	var hashes [][]byte
	for _, token := range []string{long, short} {
		sum := sha256.Sum256([]byte(token))
		hashes = append(hashes, sum[:])
	}
	for text, want := range map[string]string{
		long + " " + short + ".":               "… ….",
		"/hook/" + long + "?x, %2F" + short:    "/hook/…?x, %2F…",
		`{"x":"\n` + long + `"}`:               `{"x":"\n…"}`,
		long + "andmore":                       "…andmore",
		long[1:] + short[1:] + " " + long[:29]: long[1:] + short[1:] + " " + long[:29],
	} {
		if got := HideHashed(text, hashes...); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := HideHashed(text); got != text {
			t.Errorf("%q without tokens: %q", text, got)
		}
	}
}
