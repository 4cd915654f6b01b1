package account

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// Nobody gets new attempts by using up the memory of the failed ones.
func TestFailedAttemptsAreNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no count fills up meanwhile
		p := newFailures()
		used := func(name, address string) bool { return p.Attempt(name, address) > 0 }
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
		p := newFailures()
		for p.Attempt("admin", "192.0.2.1") == 0 {
		}
		for i := range 2 * maxAttempts {
			p.WrongToken(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String())
		}
		if p.Attempt("admin", "192.0.2.1") == 0 {
			t.Error("wrong tokens from elsewhere give new attempts")
		}
		if len(p.tokens) > maxAttempts {
			t.Errorf("%d counts are kept", len(p.tokens))
		}
	})
}

// The addresses that were reported are bounded.
func TestWrongToken_ManyAddresses_AreBounded(t *testing.T) {
	p := newFailures()
	for i := range 2 * maxAttempts {
		p.slowed.at(fmt.Sprint(i))
	}
	if len(p.slowed) > maxAttempts {
		t.Errorf("%d addresses are kept", len(p.slowed))
	}
}

// Addresses that try a user's name again and again do not lock the user out where the right password came from before.
func TestFailedAttempts_FromManyAddresses_LeaveAKnownOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFailures()
		p.Succeeded("admin", "192.0.2.1")
		for i := range 20 {
			for p.Attempt("Admin", fmt.Sprintf("198.51.100.%d", i)) == 0 {
			}
		}
		if p.Attempt("admin", "203.0.113.1") == 0 {
			t.Error("an unknown address has attempts left, though the name has none")
		}
		if wait := p.Attempt("admin", "192.0.2.1"); wait > 0 {
			t.Errorf("the user is locked out for %v", wait)
		}
		for p.Attempt("admin", "192.0.2.1") == 0 { // its own attempts are bounded, too
		}
	})
}

// Another spelling of a name is no other name.
func TestFailedAttemptsOfOtherSpellings(t *testing.T) {
	p := newFailures()
	spellings := []string{"Jürgenß-s", "JÜRGENß-S", "jürgenẞ-ſ"}
	for i := range pairFailures {
		if name := spellings[i%len(spellings)]; p.Attempt(name, "192.0.2.1") > 0 {
			t.Errorf("attempt %d, as %s, has to wait", i, name)
		}
	}
	for _, name := range spellings {
		if p.Attempt(name, "192.0.2.1") == 0 {
			t.Errorf("%s gets attempts of its own", name)
		}
	}
}

// What is full again is forgotten first.
func TestOldAttemptsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFailures()
		fill := func(prefix string, n int) {
			for i := range n {
				p.Attempt(fmt.Sprint(prefix, i), netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String())
			}
		}
		fill("old", maxAttempts)
		time.Sleep(2 * time.Minute)
		for p.Attempt("admin", "192.0.2.1") == 0 {
		}
		fill("new", maxAttempts/4)
		if p.Attempt("admin", "192.0.2.1") == 0 {
			t.Error("the name is free again")
		}
		if len(p.failed) > maxAttempts {
			t.Errorf("%d counts are kept", len(p.failed))
		}
	})
}
