package auth

import (
	"testing"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/token"
)

func TestWrites(t *testing.T) {
	rules, err := access.New(nil, []access.Rule{
		{Who: []string{"dev"}, Repositories: []string{"team/**"}, Allow: []string{"push"}},
		{Who: []string{"anyone"}, Repositories: []string{"**"}, Allow: []string{"pull"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens := func(own *token.Own, actions ...string) *token.Claims {
		return &token.Claims{Own: own, Access: []token.Scope{{Type: "repository", Name: "team/app", Actions: actions}}}
	}
	for name, tt := range map[string]struct {
		user  string
		rules *access.Rules
		only  access.Rights
		token *token.Claims
		want  bool
	}{
		"login":                             {user: "dev", rules: rules, want: true},
		"login that only pulls":             {user: "node", rules: rules},
		"no login":                          {rules: rules},
		"no login, open to users":           {rules: access.UsersOnly(true)},
		"personal token that only pulls":    {user: "dev", rules: rules, only: access.Pull},
		"token to pull of this registry":    {user: "dev", rules: rules, token: tokens(&token.Own{}, "pull"), want: true},
		"token to pull of another service":  {user: "dev", rules: access.Bearers(), token: tokens(nil, "pull")},
		"token to push of another service":  {user: "dev", rules: access.Bearers(), token: tokens(nil, "pull", "push"), want: true},
		"token to push, against the rules":  {user: "node", rules: rules, token: tokens(nil, "pull", "push")},
		"token of this registry to no user": {rules: rules, token: tokens(&token.Own{}, "pull")},
	} {
		kind := access.User
		if tt.user == "" {
			kind = access.Anonymous
		}
		g := Grant{Caller: access.Caller{Kind: kind, Name: tt.user, Only: tt.only, Bearer: tt.token != nil}, User: tt.user, rules: tt.rules, token: tt.token}
		if got := g.Writes("team/app"); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
