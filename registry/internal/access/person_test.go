package access

import (
	"testing"

	"slipway/registry/internal/oci"
)

func TestPersons(t *testing.T) {
	r := rules(
		t, map[string][]string{"owners": {"oidc-group:admins", "oidc:zoe"}},
		Rule{Who: []string{"group:owners"}, Repositories: []string{"**"}, Allow: []string{"admin"}},
		Rule{Who: []string{"oidc-group:dev"}, Repositories: []string{"web/**"}, Allow: []string{"push"}},
		Rule{Who: []string{"oidc:alice"}, Repositories: []string{"alice"}, Allow: []string{"push"}},
		Rule{Who: []string{"users"}, Repositories: []string{"shared"}, Allow: []string{"pull"}},
		Rule{Who: []string{"alice"}, Repositories: []string{"local"}, Allow: []string{"pull"}},
	)
	for _, tt := range []struct {
		who    string
		groups []string
		name   string
		want   bool
	}{
		{"oidc:alice", nil, "alice", true},
		{"alice", nil, "alice", false}, // of the password file
		{"oidc:alice", nil, "local", false},
		{"oidc:bob", nil, "web/app", false},
		{"oidc:bob", []string{"dev"}, "web/app", true},
		{"bob", []string{"dev"}, "web/app", false},
		{"robot:bob", []string{"dev"}, "web/app", false},
		{"oidc:bob", []string{"admins"}, "any", true},
		{"oidc:zoe", nil, "any", true},
		{"oidc:bob", nil, "shared", true},
		{"anonymous", []string{"dev", "admins"}, "web/app", false},
	} {
		c := ParseCaller(tt.who)
		c.Groups = tt.groups
		if got := r.Decide(&c, Pull, oci.Name(tt.name)).Allowed; got != tt.want {
			t.Errorf("%s of %v in %s: %v", tt.who, tt.groups, tt.name, got)
		}
		if c.String() != tt.who {
			t.Errorf("%s is written %s", tt.who, c.String())
		}
	}
	if got := (&Caller{Kind: User, Name: "oidc:x"}).String(); got != "user:oidc:x" {
		t.Errorf("a user of the name oidc:x is written %s", got)
	}
	if got := Changes(nil, rules(t, map[string][]string{"g": {"oidc-group:dev"}}, Rule{Who: []string{"group:g"}, Repositories: []string{"a"}, Allow: []string{"pull"}})); got != "added: group:g in a: allow pull (members: oidc-group:dev)" {
		t.Errorf("the change is %q", got)
	}
}

// A person whose groups aren't all known is denied what any group is denied, and allowed only what
// the known ones are.
func TestPersons_MoreGroups(t *testing.T) {
	r := rules(
		t, map[string][]string{"outside": {"oidc-group:contractors"}},
		Rule{Who: []string{"group:outside"}, Repositories: []string{"secret"}, Deny: []string{"pull", "admin"}},
		Rule{Who: []string{"oidc-group:ops"}, Repositories: []string{"ops"}, Allow: []string{"pull"}},
		Rule{Who: []string{"users"}, Repositories: []string{"secret", "open"}, Allow: []string{"pull", "admin"}},
	)
	own, err := NewGrant([]string{"**"}, []string{"pull"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		who    Caller
		name   oci.Name
		pull   bool
		reason string
	}{
		{Caller{Kind: Person, Name: "a", Groups: []string{"dev"}}, "secret", true, "allowed by rules[2]: users in secret: allow pull, admin"},
		{Caller{Kind: Person, Name: "a", Groups: []string{"dev"}, MoreGroups: true}, "secret", false, "denied by rules[0]: group:outside in secret: deny pull, admin"},
		{Caller{Kind: Person, Name: "a", MoreGroups: true}, "ops", false, "denied: no rule allows it"},
		{Caller{Kind: Person, Name: "a", MoreGroups: true, Groups: []string{"ops"}}, "ops", true, "allowed by rules[1]: oidc-group:ops in ops: allow pull"},
		{Caller{Kind: Person, Name: "a", MoreGroups: true}, "open", true, "allowed by rules[2]: users in open: allow pull, admin"},
		{Caller{Kind: User, Name: "a"}, "secret", true, "allowed by rules[2]: users in secret: allow pull, admin"},
	} {
		if d := r.Explain(&tt.who, Pull, tt.name); d.Allowed != tt.pull || d.Part() != tt.reason {
			t.Errorf("%+v in %s: %v, %s", tt.who, tt.name, d.Allowed, d.Part())
		}
		maker := tt.who
		robot := Caller{Kind: Robot, Name: "r", Maker: &maker, Own: []Grant{own}}
		if d := r.Explain(&robot, Pull, tt.name); d.Allowed != tt.pull {
			t.Errorf("a robot of %+v in %s: %v, %s", tt.who, tt.name, d.Allowed, d.Part())
		}
	}
	if c := (Caller{Kind: Person, Name: "a", MoreGroups: true}); r.Administers(&c, []string{"secret"}) {
		t.Error("a person who may be in a group without admin administers")
	}
}

// TestOnly: a personal access token takes rights away, and gives none.
func TestOnly(t *testing.T) {
	r := rules(t, nil, Rule{Who: []string{"alice"}, Repositories: []string{"**"}, Allow: []string{"admin"}}, Rule{Who: []string{"bob"}, Repositories: []string{"a"}, Allow: []string{"pull"}})
	alice := Caller{Kind: User, Name: "alice", Only: Pull | Push}
	bob := Caller{Kind: User, Name: "bob", Only: Pull | Push}
	for _, tt := range []struct {
		who  *Caller
		want Rights
		may  bool
	}{{&alice, Pull, true}, {&alice, Push.Needs(), true}, {&alice, Delete, false}, {&alice, Admin, false}, {&bob, Pull, true}, {&bob, Push.Needs(), false}} {
		if got := r.May(tt.who, tt.want, "a"); got != tt.may {
			t.Errorf("%s may %s: %v", tt.who.Name, tt.want, got)
		}
	}
	if r.AdministersAny(&alice) || r.Administers(&alice, nil) || r.Lists(&alice) || r.Unlimited(&alice) {
		t.Error("a token for pushes does more")
	}
	if got := r.Decide(&alice, Delete, "a").String(); got != "denied: the personal access token is for pull, push only" {
		t.Errorf("it is explained by %q", got)
	}
}
