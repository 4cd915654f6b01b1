package post

import (
	"crypto/sha256"
	"strings"
	"testing"
)

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
