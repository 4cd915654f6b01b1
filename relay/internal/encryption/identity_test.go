//go:build goolm

package encryption

import (
	"strings"
	"testing"
)

// The relay makes the recovery key of its identity once, and never takes the place of another client's.
func TestRecoveryKeyIsMadeOnce(t *testing.T) {
	s, d := newPair(t)
	if err := d.loadIdentity(t.Context()); err != nil {
		t.Fatal(err)
	}
	const path = "/_matrix/client/v3/user/@bot:hs/account_data/m.secret_storage.default_key"
	kept := func() (known, there string) {
		t.Helper()
		known, err := d.store.GetSecret(t.Context(), secretRecovery)
		if err != nil {
			t.Fatal(err)
		}
		s.change(func() { there = string(s.data[path]) })
		return known, there
	}
	keep := func() {
		t.Helper()
		if err := d.keepRecovery(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	s.change(func() { s.data[path] = []byte(`{"key":"theirs"}`) })
	keep()
	if known, there := kept(); known != "" || there != `{"key":"theirs"}` {
		t.Errorf("another client's recovery key is replaced: %s", there)
	}

	s.change(func() { delete(s.data, path) }) // as after a crash before the last step
	if err := d.store.PutSecret(t.Context(), secretRecovery, "of no use"); err != nil {
		t.Fatal(err)
	}
	keep()
	known, there := kept()
	if known == "of no use" || known == "" || !strings.Contains(there, `"key"`) {
		t.Errorf("after a crash no recovery key is made: %q", there)
	}
	keep()
	if again, still := kept(); again != known || still != there {
		t.Error("the recovery key is made twice")
	}
}
