package web

import "testing"

// Rules and texts name people as oidc:NAME, so a name has neither a colon nor anything that can't be seen.
func TestUsableName(t *testing.T) {
	for name, want := range map[string]bool{
		"anna": true, "Anna.O'Neil+x@example.org": true, "anné": true,
		"robot:ci": false, "anna bell": false, `an"na`: false, "anna\u200b": false, "an\nna": false,
	} {
		if UsableName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
