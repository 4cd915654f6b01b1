package relay

import (
	"strings"
	"testing"
)

func TestUsableHash(t *testing.T) {
	const salt, key = "c2FsdHNhbHQ", "a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5"
	for hash, want := range map[string]bool{
		"$argon2id$v=19$m=131072,t=4,p=4$" + salt + "$" + key:                      true, // PushBits' defaults
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$" + key:                       true,
		"$argon2id$v=19$m=4194304,t=4,p=4$" + salt + "$" + key:                     false, // 4 GiB
		"$argon2id$v=19$m=131072,t=4000000000,p=4$" + salt + "$" + key:             false,
		"$argon2id$v=19$m=131072,t=0,p=4$" + salt + "$" + key:                      false,
		"$argon2id$v=19$m=131072,t=4,p=0$" + salt + "$" + key:                      false,
		"$argon2id$v=19$m=131072,t=4,p=256$" + salt + "$" + key:                    false,
		"$argon2id$v=16$m=131072,t=4,p=4$" + salt + "$" + key:                      false,
		"$argon2i$v=19$m=131072,t=4,p=4$" + salt + "$" + key:                       false,
		"$argon2id$v=19$m=131072,t=4,p=4$" + salt + "$":                            false,
		"$argon2id$v=19$m=131072,t=4,p=4$!$" + key:                                 false,
		"$argon2id$v=19$m=131072,t=4,p=4$" + salt + "$" + strings.Repeat(key, 100): false,
		"$2a$10$abcdefghijklmnopqrstuv":                                            false,
		"":                                                                         false,
	} {
		if got := usableHash(hash); got != want {
			t.Errorf("%s: %v, want %v", hash, got, want)
		}
	}
}

// TestImportOfOddRows: what another server let in and this one would not.
func TestImportOfOddRows(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("n", 200)
	told, err := r.Import(t.Context(), r.admin, []ImportUser{
		{ID: 7, Name: "dora", PasswordHash: "$2a$10$none", MatrixID: "dora", Admin: true},
		{ID: 8, Name: "dora"},
		{ID: 9, Name: ""},
	}, []ImportApplication{
		{Owner: 7, Name: long, Token: "Aone"},
		{Owner: 99, Name: "orphan", Token: "Atwo", Room: "not a room"},
		{Owner: 7, Name: "same token", Token: "Aone"},
		{Owner: 7, Name: "no token"},
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		taken bool
		note  string
	}{
		{true, `without a password: its hash cannot be used, set a new one, and without the Matrix id "dora"`},
		{false, "there already"},
		{false, "the name is not possible here"},
		{true, "with its token, as imported, with a new room"},
		{true, "with its token, to "},
		{false, "there already"},
		{false, "its token is none"},
	} {
		if told[i].Taken != want.taken || !strings.Contains(told[i].Note, want.note) {
			t.Errorf("%d: %+v, want %v %q", i, told[i], want.taken, want.note)
		}
	}
	if _, err := r.Accept(t.Context(), AcceptRequest{Token: "Aone", Message: "hello"}); err != nil {
		t.Errorf("an imported token: %v", err)
	}
	if _, err := r.Authenticate(t.Context(), "dora", "", "test"); KindOf(err) != KindUnauthorized {
		t.Errorf("without a password: %v", err)
	}
}
