package access

import "strings"

// Administers reports whether the caller has Admin in every repository that one of the patterns
// selects; without patterns, in the registry as a whole. It compares patterns as they are written,
// so it may report too little.
func (r *Rules) Administers(c *Caller, patterns []string) bool {
	if c.Only != 0 && c.Only&Admin == 0 || c.Maker != nil && !r.Administers(c.Maker, patterns) {
		return false
	}
	if len(patterns) == 0 || r.Decide(c, Admin, "").Allowed {
		return r.Decide(c, Admin, "").Allowed
	}
	for _, p := range patterns {
		if !r.administers(c, p) {
			return false
		}
	}
	return true
}

func (r *Rules) administers(c *Caller, pattern string) bool {
	if r != nil {
		for i := range r.rules {
			rule := &r.rules[i]
			if !rule.selects(c, Admin) {
				continue
			}
			if rule.deny&Admin != 0 {
				return false
			}
			for _, own := range rule.source.Repositories {
				if rule.allow&Admin != 0 && includes(own, pattern) {
					return true
				}
			}
		}
	}
	for i := range c.Own {
		if c.Own[i].Rights&Admin != 0 && c.Own[i].Repositories.All() {
			return true
		}
	}
	return false
}

// includes reports whether a pattern selects all that another one does, if that can be seen from
// how they begin.
func includes(outer, inner string) bool {
	if outer == "**" || outer == inner {
		return true
	}
	folder, ok := strings.CutSuffix(outer, "**")
	return ok && strings.HasSuffix(folder, "/") && strings.HasPrefix(inner, folder) && len(inner) > len(folder)
}

// AdministersAny reports whether the caller may have Admin in any repository at all.
func (r *Rules) AdministersAny(c *Caller) bool { return r.has(c, Admin) }
