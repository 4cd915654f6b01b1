package protocol

import (
	"strings"
	"testing"
)

// A word means the same wherever the token is; a number is on Gotify's scale with a token in a header.
func TestPriority_Words(t *testing.T) {
	for given, want := range map[string]int{`"min"`: -2, `"low"`: -1, `"normal"`: 0, `"high"`: 1, `" MAX "`: 2} {
		header, err := submit(t, Native(), "/message", `{"message":"m","priority":`+given+`}`, "Authorization: Bearer "+token)
		if err != nil {
			t.Fatal(err)
		}
		body, err := submit(t, Native(), "/message", `{"message":"m","token":"`+token+`","priority":`+given+`}`)
		if err != nil {
			t.Fatal(err)
		}
		if h, b := header.Drafts[0], body.Drafts[0]; *h.Priority != want || *b.Priority != want || h.GotifyScale != 0 {
			t.Errorf("%s: %d with the token in a header, %d in the body, want %d", given, *h.Priority, *b.Priority, want)
		}
	}
	if _, err := submit(t, Native(), "/message", `{"message":"m","priority":"urgent"}`); err == nil || !strings.HasSuffix(err.Error(), "The priority must be min, low, normal, high or max, or a whole number.") {
		t.Error(err)
	}
}
