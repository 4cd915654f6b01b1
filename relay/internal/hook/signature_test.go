package hook

import (
	"strings"
	"testing"
)

// From GitHub's documentation, "Testing the webhook payload validation".
const (
	secret    = "It's a Secret to Everybody"
	body      = "Hello, World!"
	signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
)

func TestSigned(t *testing.T) {
	for _, tt := range []struct {
		name, signature, secret, body string
		want                          bool
	}{
		{"good", signature, secret, body, true},
		{"good, in capitals", "sha256=" + strings.ToUpper(signature[7:]), secret, body, true},
		{"another body", signature, secret, body + " ", false},
		{"another secret", signature, secret + " ", body, false},
		{"none", "", secret, body, false},
		{"another algorithm", strings.Replace(signature, "sha256", "sha1", 1), secret, body, false},
		{"without its algorithm", signature[7:], secret, body, false},
		{"nothing behind the algorithm", "sha256=", secret, body, false},
		{"cut off", signature[:len(signature)-2], secret, body, false},
		{"too long", signature + "00", secret, body, false},
		{"no hex", "sha256=zz", secret, body, false},
	} {
		if got := Signed(tt.signature, []byte(tt.secret), []byte(tt.body)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
