package auth

import (
	"testing"

	"slipway/registry/internal/access"
)

// TestLacksGroups: only a person without any group, in front of rules for groups, lacks them.
func TestLacksGroups(t *testing.T) {
	person := access.Caller{Kind: access.Person, Name: "dora"}
	member := access.Caller{Kind: access.Person, Name: "dora", Groups: []string{"others"}}
	user := access.Caller{Kind: access.User, Name: "dora"}
	for caller, want := range map[string]bool{"oidc-group:devs": true, "oidc:dora": false} {
		rules, err := access.New(nil, []access.Rule{{Who: []string{caller}, Repositories: []string{"**"}, Allow: []string{"pull"}}})
		if err != nil {
			t.Fatal(err)
		}
		a := NewAuthorizer(Options{Rules: func() *access.Rules { return rules }})
		if got := a.LacksGroups(&person); got != want {
			t.Errorf("rules for %s: %t", caller, got)
		}
		if a.LacksGroups(&member) || a.LacksGroups(&user) {
			t.Errorf("rules for %s: a member of a group, or a user, lacks groups", caller)
		}
	}
}
