package auth

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"slipway/shared/programtest"
)

func TestSetHashKeepsTheRest(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{ // HASH stands for the new hash
		{"new file", "", "bob:HASH\n"},
		{"appended", "# ours\nalice:x\n", "# ours\nalice:x\nbob:HASH\n"},
		{"no newline at the end", "alice:x", "alice:x\nbob:HASH\n"},
		{"in its place", "alice:x\nbob:y\n\ncarl:z\n", "alice:x\nbob:HASH\n\ncarl:z\n"},
		{"twice", "bob:1\nalice:x\n bob:2\n", "bob:HASH\nalice:x\n"},
		{"longer name", "bobby:x\n", "bobby:x\nbob:HASH\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			made, err := HashPassword("secret", bcrypt.MinCost)
			if err != nil {
				t.Fatal(err)
			}
			got, err := SetHash([]byte(c.content), "bob", made)
			if err != nil {
				t.Fatal(err)
			}
			hash := parseUsers(got).byName["bob"].hash
			if bcrypt.CompareHashAndPassword([]byte(hash), []byte("secret")) != nil {
				t.Errorf("the password does not match %q", hash)
			}
			if got := strings.Replace(string(got), hash, "HASH", 1); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestNewPasswordsRefuse(t *testing.T) {
	for _, c := range []struct {
		name, user, password string
		cost                 int
	}{
		{"no user", "", "p", 4},
		{"colon", "a:b", "p", 4},
		{"comment", "#a", "p", 4},
		{"newline", "a\nb", "p", 4},
		{"space", "a ", "p", 4},
		{"no password", "a", "", 4},
		{"73 bytes", "a", strings.Repeat("p", 73), 4},
		{"zero byte", "a", "p\x00q", 4},
		{"cost too low", "a", "p", 3},
		{"cost too high", "a", "p", 18},
	} {
		t.Run(c.name, func(t *testing.T) {
			hash, err := HashPassword(c.password, c.cost)
			if err != nil {
				return
			}
			if got, err := SetHash(nil, c.user, hash); err == nil {
				t.Errorf("made %q", got)
			}
		})
	}
}

func TestSetHashRemoves(t *testing.T) {
	for content, want := range map[string]string{"alice:x\nbob:y\n# bob:z\nbob:\n": "alice:x\n# bob:z\n", "alice:x\n": "alice:x\n"} {
		if got, err := SetHash([]byte(content), "bob", ""); err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v", content, got, err)
		}
	}
}

func TestReplacePasswords_IsDurable(t *testing.T) {
	programtest.WantDurable(t, func(dir string) error { return ReplacePasswords(filepath.Join(dir, "htpasswd"), []byte("a:b\n")) }, "htpasswd")
}
