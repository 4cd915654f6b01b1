package account_test

import (
	"strings"
	"testing"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/store"
)

// TestImportOfOddRows: what another server let in and this one would not.
func TestImportOfOddRows(t *testing.T) {
	r := relaytest.NewRig(t)
	long := strings.Repeat("n", 200)
	told, err := r.Import(t.Context(), r.Admin, &store.PushBits{Users: []store.PushBitsUser{
		{ID: 7, Name: "dora", PasswordHash: "$2a$10$none", MatrixID: "dora", Admin: true},
		{ID: 8, Name: "dora"},
		{ID: 9, Name: ""},
	}, Applications: []store.PushBitsApplication{
		{UserID: 7, Name: long, Token: "Aone"},
		{UserID: 99, Name: "orphan", Token: "Atwo", RoomID: "not a room"},
		{UserID: 7, Name: "same token", Token: "Aone"},
		{UserID: 7, Name: "no token"},
	}}, true)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		taken bool
		note  string
	}{
		{true, `without a password: its hash cannot be used, set a new one, and without the Matrix ID "dora"`},
		{false, "already exists"},
		{false, "the name is not allowed here"},
		{true, "with its token, as imported, with a new room"},
		{true, "with its token, to "},
		{false, "already exists"},
		{false, "its token is not valid"},
	} {
		if told[i].Taken != want.taken || !strings.Contains(told[i].Note, want.note) {
			t.Errorf("%d: %+v, want %v %q", i, told[i], want.taken, want.note)
		}
	}
	if _, err := r.Accept(t.Context(), post.Draft{Token: "Aone", Content: post.Content{Body: "hello"}}); err != nil {
		t.Errorf("an imported token: %v", err)
	}
	if _, err := r.Authenticate(t.Context(), "dora", "", "test"); refusal.KindOf(err) != refusal.KindUnauthorized {
		t.Errorf("without a password: %v", err)
	}
}
