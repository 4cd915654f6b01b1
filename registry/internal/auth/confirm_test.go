package auth

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/identity/robot"
)

// A request that was let in counts as long as its credential and its rights do, and not
// as long as its token.
func TestConfirm(t *testing.T) {
	s := newService(t, allow("users", "a", "push"), allow("robot:ci", "a", "push"))
	secret, err := s.robots.Create(t.Context(), robot.Robot{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	want := Access{Action: Push, Repository: "a"}
	type let struct {
		r *http.Request
		g Grant
	}
	requests := map[string]*let{}
	for name, r := range map[string]*http.Request{"user": basic("alice", "secret"), "robot": basic("robot+ci", secret)} {
		issued := s.issue(t, r, TokenRequest{Scopes: []string{"repository:a:pull,push"}})
		requests[name], requests[name+"'s token"] = &let{r: r}, &let{r: bearer(issued.Token)}
	}
	for name, l := range requests {
		if l.g, err = s.Authorize(l.r, want); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	confirm := func(name string) Reason {
		t.Helper()
		l := requests[name]
		g := l.g
		if err := s.Confirm(l.r, &g, want); err != nil {
			return refusal(t, err).Reason
		}
		return ""
	}
	wants := func(when string, reasons map[string]Reason) {
		t.Helper()
		for name := range requests {
			if got := confirm(name); got != reasons[name] {
				t.Errorf("%s, %s: %q, want %q", when, name, got, reasons[name])
			}
		}
	}
	wants("at once", nil)
	s.rules = mustRules(t, allow("users", "a", "push"))
	wants("without a rule for the robot", map[string]Reason{"robot": Forbidden, "robot's token": Forbidden})
	s.rules = mustRules(t, allow("anyone", "a", "push"))
	if err := s.robots.Revoke(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	wants("without the robot", map[string]Reason{"robot": RevokedToken, "robot's token": RevokedToken})
	s.users.edit(t, line(t, "alice", "another"))
	gone := map[string]Reason{"robot": RevokedToken, "robot's token": RevokedToken, "user": RevokedToken, "user's token": RevokedToken}
	wants("with another password", gone)
	s.users.edit(t, line(t, "bob", "hidden"))
	wants("without the user", gone)
}

func TestConfirm_ExpiredToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, allow("users", "a", "push"))
		r := bearer(s.issue(t, basic("alice", "secret"), TokenRequest{Scopes: []string{"repository:a:pull,push"}}).Token)
		want := Access{Action: Push, Repository: "a"}
		g, err := s.Authorize(r, want)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := s.Authorize(r, want); err == nil {
			t.Error("the token has not expired")
		}
		if err := s.Confirm(r, &g, want); err != nil {
			t.Errorf("a request that the token has let in: %v", err)
		}
	})
}
