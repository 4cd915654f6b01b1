package access

import "slipway/registry/internal/pattern"

// Bearers lets every caller with a token do everything: the token alone restricts.
func Bearers() *Rules {
	return &Rules{rules: []rule{{who: []subject{{bearers: true}}, names: everyName(), allow: All, text: "no access rules"}}}
}

// UsersOnly lets every user do everything, and everybody pull if anonymousPull is set:
// what holds without rules.
func UsersOnly(anonymousPull bool) *Rules {
	r := &Rules{rules: []rule{{who: []subject{{users: true}}, names: everyName(), allow: All, text: "no access rules"}}}
	if anonymousPull {
		r.rules = append(r.rules, rule{who: []subject{{everybody: true}}, names: everyName(), allow: Pull, text: "auth.htpasswd.anonymouspull"})
	}
	return r
}

func everyName() pattern.Names {
	names, err := pattern.ParseNames([]string{"**"})
	if err != nil {
		panic(err) // a constant
	}
	return names
}
