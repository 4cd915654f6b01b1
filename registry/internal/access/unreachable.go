package access

import (
	"fmt"
	"slices"
	"strings"
)

// Unreachable describes the rules that deny a right which earlier rules have allowed to
// the same callers in the same repositories, so that they decide nothing.
func (r *Rules) Unreachable() []string {
	if r == nil {
		return nil
	}
	var found []string
	for i := range r.rules {
		for right := Pull; right <= Admin; right <<= 1 {
			if r.rules[i].deny&right == 0 {
				continue
			}
			first := slices.IndexFunc(r.rules[:i], func(x rule) bool { return x.allow&right != 0 && x.covers(&r.rules[i]) })
			if first >= 0 {
				found = append(found, fmt.Sprintf("rules[%d] (%s) never denies %s, because rules[%d] (%s) allows it before: move it up", i, r.rules[i].text, right, first, r.rules[first].text))
			}
		}
	}
	return found
}

// covers reports whether the rule selects all that the other does. It may miss that where
// patterns cover each other in ways that only their matches show.
func (r *rule) covers(other *rule) bool {
	callers := func(s subject) bool {
		return slices.ContainsFunc(r.who, func(x subject) bool {
			return x.everybody || x == s || x.users && ((s.kind == User || s.kind == Person) && s.name != "" || s.group != "")
		})
	}
	repositories := func(p string) bool {
		return r.names.All() || slices.ContainsFunc(r.source.Repositories, func(x string) bool {
			below, tree := strings.CutSuffix(x, "**")
			return x == p || tree && strings.HasPrefix(p, below)
		})
	}
	missing := func(s subject) bool { return !callers(s) }
	return !slices.ContainsFunc(other.who, missing) && !slices.ContainsFunc(other.source.Repositories, func(p string) bool { return !repositories(p) })
}
