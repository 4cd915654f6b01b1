package message

import "testing"

func TestHideToken(t *testing.T) {
	for token, want := range map[string]string{"secret-token": "…, …/x", " secret-token\n": "…, …/x", "secret": "secret-token, secret-token/x", "": "secret-token, secret-token/x"} {
		if got := HideToken("secret-token, secret-token/x", token); got != want {
			t.Errorf("%q: %q", token, got)
		}
	}
}
