package auth

import (
	"strings"
	"testing"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/oci"
)

// A robot may do no more than its maker may, at each use, and stops with its maker: else
// an administrator would escape a rule that denies, or go on after the own login has gone.
func TestRobot_IsBoundedByItsMaker(t *testing.T) {
	s := newService(
		t,
		access.Rule{Who: []string{"alice"}, Repositories: []string{"secret/**"}, Deny: []string{"pull", "push", "delete", "list"}},
		allow("alice", "**", "admin"),
		allow("robot:deputy", "secret/**", "pull"), // alice may take this name
		allow("robot:operator", "secret/**", "pull"),
	)
	secrets := map[string]string{}
	create := func(name, maker string, words ...string) {
		t.Helper()
		r := robot.Robot{Name: name, CreatedBy: maker, MakerID: tenure(t, s, maker)}
		if len(words) > 0 {
			r.Repositories, r.Allow = []string{"**"}, words
		}
		secret, err := s.robots.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		secrets[name] = secret
	}
	create("spy", "alice", "admin")
	create("deputy", "alice")
	create("child", "robot:spy", "admin")
	create("grandchild", "robot:child", "admin")
	create("operator", "")
	create("orphan", "carol", "admin")
	create("narrow", "bob", "push", "list")

	may := func(name string, action Action, repository oci.Name) bool {
		_, err := s.Authorize(basic("robot+"+name, secrets[name]), Access{Action: action, Repository: repository})
		return err == nil
	}
	token := func(name string) string {
		t.Helper()
		return s.issue(t, basic("robot+"+name, secrets[name]), TokenRequest{Scopes: []string{"repository:secret/a:pull", "repository:open/a:pull"}}).Token
	}
	for _, name := range []string{"spy", "deputy", "child", "grandchild"} {
		if may(name, Pull, "secret/a") || s.may(token(name), Pull, "secret/a") {
			t.Errorf("the robot %s of alice reads what alice is denied", name)
		}
		if got := name != "deputy"; may(name, Pull, "open/a") != got || s.may(token(name), Pull, "open/a") != got {
			t.Errorf("the robot %s pulls open/a: not %v", name, got)
		}
	}
	if !may("operator", Pull, "secret/a") {
		t.Error("a rule for a robot of the command line does not count")
	}
	if may("narrow", Push, "open/a") || may("narrow", Catalog, "") {
		t.Error("a robot exceeds the rights of its maker")
	}
	if _, err := s.Authorize(basic("robot+orphan", secrets["orphan"]), Access{Action: Ping}); refusal(t, err).Reason != MakerGone {
		t.Errorf("a robot of somebody who does not exist: %v", err)
	}

	// The rules and the makers count as they are now.
	issued := token("grandchild")
	s.rules = mustRules(t, allow("bob", "**", "pull"))
	if may("spy", Pull, "open/a") || s.may(issued, Pull, "open/a") || !may("narrow", Pull, "secret/a") {
		t.Error("a robot has the rights that its maker had before")
	}
	s.rules = mustRules(t, allow("alice", "**", "admin"))
	if !s.may(issued, Pull, "open/a") {
		t.Error("a robot lacks the rights that its maker has again")
	}
	if err := s.robots.Revoke(t.Context(), "child"); err != nil {
		t.Fatal(err)
	}
	if s.may(issued, Pull, "open/a") || may("grandchild", Ping, "") {
		t.Error("a robot goes on after the robot that made it was revoked")
	}
	s.users.edit(t, line(t, "bob", "hidden"))
	for _, name := range []string{"spy", "deputy"} {
		_, err := s.Authorize(basic("robot+"+name, secrets[name]), Access{Action: Ping})
		if got := refusal(t, err); got.Reason != MakerGone || !strings.Contains(got.Error(), "maker") {
			t.Errorf("the robot %s after its maker was removed: %v", name, err)
		}
	}
}

// tenure returns the ID of a maker that is a robot, "" for others.
func tenure(t *testing.T, s *service, maker string) string {
	t.Helper()
	name, ok := strings.CutPrefix(maker, "robot:")
	if !ok {
		return ""
	}
	r, err := s.robots.Read(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return r.Tenure
}

// The robots that a robot made don't pass to its next maker.
func TestRobot_MadeForAnEarlierMaker(t *testing.T) {
	s := newService(t, allow("users", "**", "admin"))
	admin := robot.Robot{Repositories: []string{"**"}, Allow: []string{"admin"}}
	create := func(name, maker string) string {
		t.Helper()
		r := admin
		r.Name, r.CreatedBy, r.MakerID = name, maker, tenure(t, s, maker)
		secret, err := s.robots.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	rotate := func(name, maker, token string) string {
		t.Helper()
		secret, err := s.robots.Rotate(t.Context(), name, robot.Maker{Name: maker, ID: tenure(t, s, maker), Token: token})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	works := func(name, secret string) bool {
		_, err := s.Authorize(basic("robot+"+name, secret), Access{Action: Ping})
		return err == nil
	}
	for name, change := range map[string]func(){
		"another maker": func() { rotate("parent", "bob", "") },
		"another alice": func() {
			if ended, err := s.robots.Orphan(t.Context(), "parent"); err != nil || !ended {
				t.Fatal(ended, err)
			}
			rotate("parent", "alice", "")
		},
		"another token": func() {
			rotate("parent", "alice", "another")
			rotate("parent", "alice", "")
		},
		"another robot": func() {
			if err := s.robots.Revoke(t.Context(), "parent"); err != nil {
				t.Fatal(err)
			}
			create("parent", "alice")
		},
	} {
		create("parent", "alice")
		child := create("child", "robot:parent")
		rotate("parent", "alice", "")
		rotate("parent", "robot:parent", "")
		if !works("child", child) {
			t.Errorf("%s: the child stops although its maker has the same maker", name)
		}
		change()
		if works("child", child) {
			t.Errorf("%s: the child goes on", name)
		}
		if !works("child", rotate("child", "robot:parent", "")) {
			t.Errorf("%s: the child doesn't work with another secret of its maker", name)
		}
		for _, r := range []string{"parent", "child"} {
			if err := s.robots.Revoke(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A robot that administers its repositories gives itself another secret, and stays bounded by its maker.
func TestRobot_RotatesItself(t *testing.T) {
	s := newService(t, allow("alice", "web/**", "admin"), allow("robot:ci", "**", "admin"))
	if _, err := s.robots.Create(t.Context(), robot.Robot{Name: "ci", CreatedBy: "alice", Repositories: []string{"web/**"}, Allow: []string{"push"}}); err != nil {
		t.Fatal(err)
	}
	secret, err := s.robots.Rotate(t.Context(), "ci", robot.Maker{Name: "robot:ci"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[oci.Name]bool{"web/app": true, "secret/a": false} {
		if _, err := s.Authorize(basic("robot+ci", secret), Access{Action: Pull, Repository: name}); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Robots that name each other as makers end the search.
func TestRobot_MakersInACircle(t *testing.T) {
	s := newService(t, allow("users", "**", "admin"))
	for name, maker := range map[string]string{"a": "robot:b", "b": "robot:a"} {
		secret, err := s.robots.Create(t.Context(), robot.Robot{Name: name, CreatedBy: maker})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Authorize(basic("robot+"+name, secret), Access{Action: Ping}); refusal(t, err).Reason != MakerGone {
			t.Errorf("%s: %v", name, err)
		}
	}
}
