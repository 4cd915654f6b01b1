package auth

import (
	"slices"
	"strings"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/token"
	"slipway/registry/internal/oci"
)

const (
	maxScopes = 100
	maxScope  = 1024 // bytes
)

// parseScopes reads the scopes of a request for a token, such as
// "repository:team/app:pull,push" or "repository(plugin):a:pull"; several may be in one
// parameter. What cannot be read is left out, as nothing can be granted for it.
func parseScopes(parameters []string) (scopes []token.Scope) {
	for _, parameter := range parameters {
		for text := range strings.FieldsSeq(parameter) {
			s, ok := parseScope(text)
			if ok && len(scopes) < maxScopes {
				scopes = append(scopes, s)
			}
		}
	}
	return scopes
}

func parseScope(text string) (s token.Scope, ok bool) {
	first, last := strings.IndexByte(text, ':'), strings.LastIndexByte(text, ':')
	if first < 0 || first == last || len(text) > maxScope {
		return s, false
	}
	s.Type, s.Name = text[:first], text[first+1:last]
	s.Actions = strings.Split(text[last+1:], ",")
	if bare, class, found := strings.Cut(s.Type, "("); found {
		s.Type, s.Class = bare, strings.TrimSuffix(class, ")")
	}
	return s, true
}

// tokenRights are the rights that tokens have words for, in the order in which they
// are granted.
var tokenRights = [...]struct {
	action string
	right  access.Rights
}{{"pull", access.Pull}, {"push", access.Push}, {"delete", access.Delete}}

// allowed returns the requested rights that the caller has.
func allowed(rules *access.Rules, who *access.Caller, asked []token.Scope) []token.Scope {
	granted := []token.Scope{}
	for _, s := range asked {
		if s.Actions = allowedActions(rules, who, &s); len(s.Actions) > 0 {
			granted = append(granted, s)
		}
	}
	return granted
}

func allowedActions(rules *access.Rules, who *access.Caller, s *token.Scope) (actions []string) {
	all := slices.Contains(s.Actions, "*")
	switch {
	case s.Type == "registry" && s.Name == "catalog" && all && rules.Lists(who),
		s.Type == "registry" && s.Name == "slipway" && all && rules.AdministersAny(who):
		return []string{"*"}
	case s.Type != "repository":
		return nil
	}
	name, err := oci.ParseName(s.Name)
	if err != nil {
		return nil
	}
	for _, r := range tokenRights {
		if (all || slices.Contains(s.Actions, r.action)) && rules.May(who, r.right.Needs(), name) {
			actions = append(actions, r.action)
		}
	}
	return actions
}

// scopeText is granted scopes as the answer of a token service writes them.
func scopeText(scopes []token.Scope) string {
	words := make([]string, len(scopes))
	for i, s := range scopes {
		class := ""
		if s.Class != "" {
			class = "(" + s.Class + ")"
		}
		words[i] = s.Type + class + ":" + s.Name + ":" + strings.Join(s.Actions, ",")
	}
	return strings.Join(words, " ")
}
