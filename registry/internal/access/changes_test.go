package access

import "testing"

func TestChanges(t *testing.T) {
	rules := func(members []string, list ...Rule) *Rules {
		t.Helper()
		r, err := New(map[string][]string{"devs": members}, list)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	pull := Rule{Who: []string{"anyone"}, Repositories: []string{"**"}, Allow: []string{"pull"}}
	push := Rule{Who: []string{"group:devs"}, Repositories: []string{"a"}, Allow: []string{"push"}}
	alice := rules([]string{"alice"}, pull, push)
	for _, tt := range []struct {
		before, after *Rules
		want          string
	}{
		{alice, rules([]string{"alice"}, pull, push), ""},
		{alice, rules([]string{"alice"}, push, pull), "the rules are the same in another order or number"},
		{alice, rules([]string{"alice"}, pull), "removed: group:devs in a: allow push (members: alice)"},
		{alice, rules([]string{"bob", "robot:ci"}, pull, push), "removed: group:devs in a: allow push (members: alice); added: group:devs in a: allow push (members: bob, robot:ci)"},
		{nil, rules(nil, pull), "added: anyone in **: allow pull"},
	} {
		if got := Changes(tt.before, tt.after); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
