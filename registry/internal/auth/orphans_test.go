package auth

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// The next owner of a removed user's name gets none of that user's robots.
func TestRobots_OfAReusedName(t *testing.T) {
	s := newService(t, allow("alice", "**", "admin"))
	secret, err := s.robots.Create(t.Context(), robot.Robot{Name: "ci", CreatedBy: "alice", Repositories: []string{"**"}, Allow: []string{"push"}})
	if err != nil {
		t.Fatal(err)
	}
	logins := s.Authorizer.opts.Logins
	works := func() bool {
		_, err := s.Authorize(basic("robot+ci", secret), Access{Action: Pull, Repository: "a"})
		return err == nil
	}
	m := &makers{logins: logins, log: zap.NewNop()}
	look := func() {
		t.Helper()
		for range 3 {
			if err := m.endOrphans(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(25 * time.Millisecond) // a robot that was just written has no version yet
		}
	}
	set := func(lines ...string) {
		t.Helper()
		write(t, s.users.path, lines...)
		if err := s.users.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	look()
	set(line(t, "alice", "other"), line(t, "bob", "hidden")) // another password
	look()
	set("alice:broken", line(t, "bob", "hidden"))
	look()
	set() // a program is writing the file
	if err := m.endOrphans(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(line(t, "alice", "secret"))
	look()
	if !works() {
		t.Fatal("a robot has stopped, although its maker is there")
	}
	for name, remove := range map[string]func(){
		"among others": func() { set(line(t, "bob", "hidden")) },
		"the last":     func() { set() },
		"by a copy with an old time": func() {
			set(line(t, "bob", "hidden"))
			if err := os.Chtimes(s.users.path, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		remove()
		if works() {
			t.Errorf("removed %s: a robot outlives its maker", name)
		}
		look()
		if _, err := s.robots.Create(t.Context(), robot.Robot{Name: "late", CreatedBy: "alice"}); err != nil {
			t.Fatal(err)
		}
		m.seen, m.due = m.seen.Add(-settle), m.due.Add(-settle) // as if that time had passed
		look()
		set(line(t, "alice", "of another alice"))
		if works() {
			t.Errorf("removed %s: a robot works again with another maker of the same name", name)
		}
		if late, err := s.robots.Read(t.Context(), "late"); err != nil || !late.Orphaned {
			t.Errorf("removed %s: a robot that its maker created at that moment goes on: %v", name, err)
		}
		if err := s.robots.Revoke(t.Context(), "late"); err != nil {
			t.Fatal(err)
		}
		if secret, err = s.robots.Rotate(t.Context(), "ci", robot.Maker{Name: "alice"}); err != nil || !works() {
			t.Errorf("removed %s: with another secret it doesn't work: %v", name, err)
		}
	}
}

// A robot made after the password file was changed may have a maker whom this copy of the file doesn't have yet, but not one whom it had:
// a link to an old copy has taken its place.
func TestRobots_MadeAfterTheFile(t *testing.T) {
	s := newService(t)
	for name, maker := range map[string]string{"of-alice": "alice", "of-carol": "carol"} {
		r, err := json.Marshal(robot.Robot{Name: name, CreatedBy: maker, Created: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.store.Apply(t.Context(), nil, storage.Stage{{Key: layout.Robots + "/" + name, Content: r}}); err != nil {
			t.Fatal(err)
		}
	}
	m := &makers{logins: s.Authorizer.opts.Logins, log: zap.NewNop()}
	for range 2 {
		for range 3 {
			if err := m.endOrphans(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.users.edit(t, line(t, "bob", "hidden"))
	}
	for name, want := range map[string]bool{"of-alice": true, "of-carol": false} {
		if r, err := s.robots.Read(t.Context(), name); err != nil || r.Orphaned != want {
			t.Errorf("%s: ended %v (%v), want %v", name, r.Orphaned, err, want)
		}
	}
}

// A personal access token, a session and a robot belong to one person, not to the next of the same name.
func TestPeople_OfAReusedName(t *testing.T) {
	store := memory.New()
	people := personal.New(store, "provider")
	robots := robot.New(store, zap.NewNop())
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"))
	logins := &Logins{Htpasswd: h.Htpasswd, People: people, Robots: robots}
	rules := mustRules(t, allow("users", "**", "admin"))
	a := NewAuthorizer(Options{Rules: func() *access.Rules { return rules }, Logins: logins, Realm: "r"})
	works := func(user, secret string) bool {
		_, err := a.Authorize(basic(user, secret), Access{Action: Pull, Repository: "a"})
		var refused *Refusal
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		return err == nil
	}
	create := func(owner access.Caller) string {
		t.Helper()
		bond, err := a.Bond(t.Context(), owner)
		if err != nil || bond == "" {
			t.Fatal(bond, err)
		}
		secret, err := people.Create(t.Context(), owner.String(), personal.Token{Expires: time.Now().Add(time.Hour), Bond: bond})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	token := create(access.Caller{Kind: access.User, Name: "alice"})
	if !works("alice", token) {
		t.Fatal("a token doesn't work")
	}
	write(t, h.path, line(t, "alice", "secret")) // the same password of another line
	if err := h.Reload(); err != nil {
		t.Fatal(err)
	}
	if works("alice", token) {
		t.Error("the token of a former user works")
	}

	anna := access.Caller{Kind: access.Person, Name: "anna"}
	logIn := func(subject string) Session {
		t.Helper()
		s, err := a.LogInPerson(t.Context(), "anna", subject, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	resumes := func(s Session) bool { _, err := a.Resume(basic("", ""), s); return err == nil }
	first := logIn("1")
	token = create(anna)
	person, err := people.Person(t.Context(), anna.String())
	if err != nil {
		t.Fatal(err)
	}
	secret, err := robots.Create(t.Context(), robot.Robot{Name: "ci", CreatedBy: anna.String(), MakerID: person.ID, Repositories: []string{"**"}, Allow: []string{"push"}})
	if err != nil {
		t.Fatal(err)
	}
	again := logIn("1")
	if !resumes(first) || !resumes(again) || !works("oidc+anna", token) || !works("robot+ci", secret) {
		t.Error("another login of the same person ends something")
	}
	second := logIn("2")
	if !resumes(second) || resumes(first) || works("oidc+anna", token) || works("robot+ci", secret) {
		t.Error("what belonged to somebody else of the same name works")
	}
}

// late writes another person of the same name right after each person.
type late struct {
	storage.Store
	then func()
}

func (s *late) Apply(ctx context.Context, a *storage.Attempt, stages ...storage.Stage) error {
	err := s.Store.Apply(ctx, a, stages...)
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
	return err
}

// Two people of one name who log in at the same moment get sessions of their own.
func TestLogInPerson_AtTheSameMoment(t *testing.T) {
	store := &late{Store: memory.New()}
	rules := mustRules(t, allow("users", "**", "admin"))
	a := NewAuthorizer(Options{Rules: func() *access.Rules { return rules }, Logins: &Logins{People: personal.New(store, "provider")}, Realm: "r"})
	var second Session
	store.then = func() {
		var err error
		if second, err = a.LogInPerson(t.Context(), "anna", "2", []string{"admins"}, false); err != nil {
			t.Error(err)
		}
	}
	first, err := a.LogInPerson(t.Context(), "anna", "1", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if first.Stamp == second.Stamp {
		t.Error("two people share a session")
	}
	if _, err := a.Resume(basic("", ""), first); err == nil {
		t.Error("the session of the first person is the second's")
	}
	if _, err := a.Resume(basic("", ""), second); err != nil {
		t.Error(err)
	}
}
