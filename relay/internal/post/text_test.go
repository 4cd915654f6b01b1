package post

import "testing"

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
