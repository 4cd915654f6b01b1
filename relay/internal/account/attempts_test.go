package account

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// The log names an address that is slowed down, once a minute, and never a token.
func TestWrongToken_ManyFromOneAddress_AreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.WarnLevel)
		s := &Accounts{failures: newFailures(), log: zap.New(core)}
		for range wrongTokens {
			s.WrongToken("2001:db8::1")
			s.WrongToken("192.0.2.1")
		}
		if n := logged.Len(); n != 0 {
			t.Errorf("%d lines within the limit", n)
		}
		for range 10 {
			if s.WrongToken("2001:db8::2") == 0 { // of the same network
				t.Fatal("it is not slowed down")
			}
		}
		if all := logged.TakeAll(); len(all) != 1 || all[0].Message != "many wrong tokens from one address" || all[0].ContextMap()["address"] != "2001:db8::/64" {
			t.Errorf("logged: %+v", all)
		}
		time.Sleep(time.Minute)
		for range 2 * wrongTokens {
			s.WrongToken("2001:db8::1")
		}
		if n := logged.Len(); n != 1 {
			t.Errorf("%d lines a minute later, want 1", n)
		}
	})
}

// A password that was not checked was no failed attempt.
func TestAuthenticate_NotChecked_IsNoFailure(t *testing.T) {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &Accounts{store: db, passwords: newHasher(0), failures: newFailures()}
	if err := db.Update(t.Context(), func(tx *store.Tx) error { return tx.SaveUser(&store.User{Name: "admin", PasswordHash: "not a hash"}) }); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if _, err := s.Authenticate(t.Context(), "admin", "password", "192.0.2.1"); err == nil || refusal.KindOf(err) == refusal.KindRateLimited {
			t.Fatalf("refused with %v", err)
		}
	}
}
