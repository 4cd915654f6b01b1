package pattern

import "testing"

func TestValue(t *testing.T) {
	for _, tt := range []struct {
		pattern, value string
		want           bool
	}{
		{"https://example.org", "https://example.org", true},
		{"https://example.org", "https://exampleXorg", false},
		{"https://example.org", "https://example.org/", false},
		{"https://example.org", "xhttps://example.org", false},
		{"refs/tags/*", "refs/tags/v1", true},
		{"refs/tags/*", "refs/tags/v1/v2", false},
		{"refs/tags/*", "refs/tags/v1:v2", false},
		{"refs/tags/**", "refs/tags/v1/v2", true},
		{"a|b", "a", false},
		{"*@example.org", "ann@example.org", true},
		{"*@example.org", "ann@example.org.example.com", false},
		{"*@example.org", "ann\n@example.org\n", false},
		{"**", "", true},
	} {
		if got := Value(tt.pattern).MatchString(tt.value); got != tt.want {
			t.Errorf("%q of %q = %v", tt.value, tt.pattern, got)
		}
	}
}
