package account

import (
	"strings"
	"testing"

	"slipway/relay/internal/refusal"
)

func TestCheckMention(t *testing.T) {
	for in, want := range map[string]string{
		"": "auto", " room ": "room", "owner": "owner", "none": "none", "@a:hs": "@a:hs", "@a:hs, @b:hs\n@c:hs": "@a:hs @b:hs @c:hs",
		"everybody": "?", "@a": "?", "@a:hs,none": "?", strings.Repeat("@a:hs ", 21): "?",
	} {
		got, err := checkMention(in)
		if want == "?" && refusal.KindOf(err) != refusal.KindInvalid || want != "?" && (got != want || err != nil) {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}
