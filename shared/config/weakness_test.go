package config

import (
	"strings"
	"testing"
)

func TestWeakness(t *testing.T) {
	for _, weak := range []string{
		"", "s", "123456789012345", "A-Long-Random-String", " <output of openssl rand -hex 32> ",
		strings.Repeat("a", 32), strings.Repeat("changeme", 4), "changeme-changeme-changeme", strings.Repeat("tomato", 5) + "1",
		strings.Repeat("0123456789abcdef", 2), "1234567890123456", "abcdefghijklmnopqrstuvwxyz", "ZYXWVUTSRQPONMLKJIHGFEDCBA",
		strings.Repeat("deadbeef", 4), "deadbeefcafebabedeadbeefcafebabe", "qwertyuiopasdfgh", "1q2w3e4r5t6y7u8i", "SuperSecretPassword123",
		"admin-password-admin", "test-secret-test-secret", strings.Repeat("ab12", 8), strings.Repeat("x", 40) + "y",
	} {
		if Weakness(weak) == "" {
			t.Errorf("%q passes", weak)
		}
	}
	for _, good := range []string{
		"7a4dd2a5f0c94a4cb9a8a6e3e6a55ad1", "shared-by-all-replicas", "sixteen-letters!", "It's a Secret to Everybody", "9f8b6c1d2e7a4053",
		"correct horse battery staple", "k3V9sQz0Lw8tYbXm", "3141592653589793",
	} {
		if why := Weakness(good); why != "" {
			t.Errorf("%q %s", good, why)
		}
	}
}
