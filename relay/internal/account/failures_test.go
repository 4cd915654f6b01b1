package account

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/relay/internal/refusal"
)

// Nobody gets new attempts by using up the memory of the failed ones.
func TestFailedAttemptsAreNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no count fills up meanwhile
		p := newPasswords()
		defer p.rest.Stop()
		used := func(name, address string) bool { return p.attempt(name, address) > 0 }
		for !used("admin", "192.0.2.1") { // the pair is used up
		}
		for i := 0; !used(fmt.Sprint("x", i), "192.0.2.1"); i++ { // and the address
		}
		for i := range 3 * maxAttempts {
			if !used(fmt.Sprint("y", i), "192.0.2.1") {
				t.Fatalf("attempt %d of an address that has used up its own is let through", i)
			}
		}
		if !used("admin", "192.0.2.1") {
			t.Error("the name is free again")
		}
		if len(p.failed) > maxAttempts {
			t.Errorf("%d counts are kept", len(p.failed))
		}
	})
}

// Wrong application tokens cost next to nothing: they do not push out the failures of passwords.
func TestFailedAttempts_ManyWrongTokens_AreNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords()
		defer p.rest.Stop()
		s := &Accounts{passwords: p, log: zap.NewNop()}
		for p.attempt("admin", "192.0.2.1") == 0 {
		}
		for i := range 2 * maxAttempts {
			s.WrongToken(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String())
		}
		if p.attempt("admin", "192.0.2.1") == 0 {
			t.Error("wrong tokens from elsewhere give new attempts")
		}
		if len(p.tokens) > maxAttempts {
			t.Errorf("%d counts are kept", len(p.tokens))
		}
	})
}

// The log names an address that is slowed down, once a minute, and never a token.
func TestWrongToken_ManyFromOneAddress_AreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.WarnLevel)
		p := newPasswords()
		defer p.rest.Stop()
		s := &Accounts{passwords: p, log: zap.New(core)}
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
		for i := range 2 * maxAttempts {
			p.slowed.at(fmt.Sprint(i))
		}
		if len(p.slowed) > maxAttempts {
			t.Errorf("%d addresses are kept", len(p.slowed))
		}
	})
}

// Addresses that try a user's name again and again do not lock the user out where the right password came from before.
func TestFailedAttempts_FromManyAddresses_LeaveAKnownOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords()
		defer p.rest.Stop()
		p.succeeded("admin", "192.0.2.1")
		for i := range 20 {
			for p.attempt("Admin", fmt.Sprintf("198.51.100.%d", i)) == 0 {
			}
		}
		if p.attempt("admin", "203.0.113.1") == 0 {
			t.Error("an unknown address has attempts left, though the name has none")
		}
		if wait := p.attempt("admin", "192.0.2.1"); wait > 0 {
			t.Errorf("the user is locked out for %v", wait)
		}
		for p.attempt("admin", "192.0.2.1") == 0 { // its own attempts are bounded, too
		}
	})
}

// A password that nobody has looked at was no failed attempt.
func TestAuthenticate_TooManyAtOnce_IsNoFailure(t *testing.T) {
	p := newPasswords()
	defer p.rest.Stop()
	p.waiting.Store(argonWaiting)
	s := &Accounts{passwords: p, cache: newCache()}
	for range 10 * nameFailures {
		if _, err := s.Authenticate(t.Context(), "admin", "password", "192.0.2.1"); refusal.KindOf(err) != refusal.KindUnavailable {
			t.Fatalf("refused with %v", err)
		}
	}
}

// Another spelling of a name is no other name.
func TestFailedAttemptsOfOtherSpellings(t *testing.T) {
	p := newPasswords()
	spellings := []string{"Jürgenß-s", "JÜRGENß-S", "jürgenẞ-ſ"}
	for i := range pairFailures {
		if name := spellings[i%len(spellings)]; p.attempt(name, "192.0.2.1") > 0 {
			t.Errorf("attempt %d, as %s, has to wait", i, name)
		}
	}
	for _, name := range spellings {
		if p.attempt(name, "192.0.2.1") == 0 {
			t.Errorf("%s gets attempts of its own", name)
		}
	}
}

// What is full again is forgotten first.
func TestOldAttemptsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords()
		defer p.rest.Stop()
		fill := func(prefix string, n int) {
			for i := range n {
				p.attempt(fmt.Sprint(prefix, i), netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String())
			}
		}
		fill("old", maxAttempts)
		time.Sleep(2 * time.Minute)
		for p.attempt("admin", "192.0.2.1") == 0 {
		}
		fill("new", maxAttempts/4)
		if p.attempt("admin", "192.0.2.1") == 0 {
			t.Error("the name is free again")
		}
		if len(p.failed) > maxAttempts {
			t.Errorf("%d counts are kept", len(p.failed))
		}
	})
}
