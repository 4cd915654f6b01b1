package access

import "testing"

func TestAdministers(t *testing.T) {
	r := rules(
		t, nil,
		Rule{Who: []string{"mallory"}, Repositories: []string{"web/secret"}, Deny: []string{"admin"}},
		Rule{Who: []string{"owner"}, Repositories: []string{"**"}, Allow: []string{"admin"}},
		Rule{Who: []string{"lead", "mallory"}, Repositories: []string{"web/**", "tools"}, Allow: []string{"admin"}},
		Rule{Who: []string{"dev"}, Repositories: []string{"**"}, Allow: []string{"push", "delete"}},
	)
	lead := Caller{Kind: User, Name: "lead"}
	for _, tt := range []struct {
		who      Caller
		patterns []string
		want     bool
	}{
		{Caller{Kind: User, Name: "owner"}, nil, true},
		{Caller{Kind: User, Name: "owner"}, []string{"a", "b/**"}, true},
		{lead, nil, false},
		{lead, []string{"web/**"}, true},
		{lead, []string{"web/app", "web/*/x", "tools"}, true},
		{lead, []string{"web/app", "base"}, false},
		{lead, []string{"web"}, false},
		{lead, []string{"web/"}, false},
		{lead, []string{"website/**"}, false},
		{lead, []string{"**"}, false},
		{lead, []string{"*/app"}, false},
		{Caller{Kind: User, Name: "mallory"}, []string{"web/app"}, false},
		{Caller{Kind: User, Name: "dev"}, []string{"web/app"}, false},
		{Caller{}, []string{"web/app"}, false},
		{Caller{Kind: Robot, Name: "r", Own: grant(t, "**", "admin")}, nil, true},
		{Caller{Kind: Robot, Name: "r", Own: grant(t, "**", "admin"), Maker: &lead}, nil, false},
		{Caller{Kind: Robot, Name: "r", Own: grant(t, "**", "admin"), Maker: &lead}, []string{"web/x"}, true},
	} {
		if got := r.Administers(&tt.who, tt.patterns); got != tt.want {
			t.Errorf("%s administers %v: %v", tt.who.String(), tt.patterns, got)
		}
	}
	if !r.AdministersAny(&lead) || r.AdministersAny(&Caller{Kind: User, Name: "dev"}) {
		t.Error("AdministersAny is wrong")
	}
}
