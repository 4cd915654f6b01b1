package auth

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

func TestRecords(t *testing.T) {
	h := open(t, HtpasswdOptions{})
	for _, c := range []struct {
		name string
		a    Access
		want string
	}{
		{"version check", Access{Action: Ping}, `null`},
		{"catalog", Access{Action: Catalog}, `[{"Type":"registry","Class":"","Name":"catalog","Action":"*"}]`},
		{"pull", Access{Action: Pull, Repository: "r"}, `[{"Type":"repository","Class":"","Name":"r","Action":"pull"}]`},
		{"delete", Access{Action: Delete, Repository: "r"}, `[{"Type":"repository","Class":"","Name":"r","Action":"delete"}]`},
		{
			"mount",
			Access{Action: Push, Repository: "r", From: "s"},
			`[{"Type":"repository","Class":"","Name":"r","Action":"pull"},{"Type":"repository","Class":"","Name":"r","Action":"push"},{"Type":"repository","Class":"","Name":"s","Action":"pull"}]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := h.Authorize(request(""), c.a)
			got, _ := json.Marshal(refusal(t, err).Err.Detail)
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestLastLineOfAUserCounts: a later line that locks a user wins.
func TestLastLineOfAUserCounts(t *testing.T) {
	for _, last := range []string{"alice:!\n", "alice:\n", line(t, "alice", "other")} {
		h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", "secret"), last)
		if _, err := h.Authorize(basic("alice", "secret"), Access{Action: Ping}); err == nil {
			t.Errorf("%q does not count", last)
		}
		if _, err := h.Authorize(basic("bob", "secret"), Access{Action: Ping}); err != nil {
			t.Errorf("bob: %v", err)
		}
	}
}

func TestUnknownUserCostsAComparison(t *testing.T) {
	u := parseUsers([]byte(line(t, "alice", "secret")))
	nobody, known := u.find([]byte("nobody"), maphash.MakeSeed())
	if known {
		t.Fatal("nobody is known")
	}
	cost, err := checkHash(nobody.hash)
	if err != nil || cost != bcrypt.MinCost {
		t.Errorf("the decoy %q: cost %d, %v", nobody.hash, cost, err)
	}
	if err := bcrypt.CompareHashAndPassword([]byte(nobody.hash), []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("the decoy is not compared: %v", err)
	}
}

func FuzzParseUsers(f *testing.F) {
	f.Add([]byte("a:$2y$05$abc\n#\n:\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		for name, u := range parseUsers(content).byName {
			if _, err := checkHash(u.hash); err != nil || name == "" || name != u.name {
				t.Errorf("%q:%q was taken: %v", name, u.hash, err)
			}
		}
	})
}
