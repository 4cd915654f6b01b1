package access

import (
	"fmt"
	"slices"
	"strings"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
)

// Decision is the outcome for one right, with the rule that decided.
type Decision struct {
	Allowed bool
	Rule    int  // of the rule that decided, counted from 0; -1 = none
	Own     bool // the caller's own grants decided
	maker   string
	text    string
	part    string // of text, that concerns the caller and the repository
	also    string // another right that was wanted and needs this one
}

// Explain decides on all that a request needs for the right. The decision is that on the
// first right that is denied or, if none is, on the right itself.
func (r *Rules) Explain(c *Caller, want Rights, name oci.Name) Decision {
	for right := Pull; right <= Admin; right <<= 1 {
		if d := r.Decide(c, right, name); want.Needs()&right != 0 && !d.Allowed {
			if right != want {
				d.also = " (" + want.String() + " needs " + right.String() + ", too)"
			}
			return r.withPart(d, c, name)
		}
	}
	return r.withPart(r.Decide(c, want, name), c, name)
}

// withPart notes the part of the rule that concerns the caller, or the maker that it was applied to.
func (r *Rules) withPart(d Decision, c *Caller, name oci.Name) Decision {
	if d.Rule < 0 {
		return d
	}
	rule := &r.rules[d.Rule]
	decides := rule.allow
	if !d.Allowed {
		decides = rule.deny
	}
	for d.maker != "" && c.Maker != nil && !rule.selects(c, decides) {
		c = c.Maker
	}
	var twin oci.Name
	if r.twin != nil {
		twin = r.twin(name)
	}
	d.part = rule.part(c, !d.Allowed, name, twin)
	return d
}

// part is the rule without the callers and the patterns that don't select c and the repository.
func (r *rule) part(c *Caller, denies bool, name, twin oci.Name) string {
	if r.members == nil {
		return r.text
	}
	part := Rule{Allow: r.source.Allow, Deny: r.source.Deny}
	for i, members := range r.members {
		if slices.ContainsFunc(members, func(s subject) bool { return s.selects(c, denies) }) {
			part.Who = append(part.Who, r.source.Who[i])
		}
	}
	for _, p := range r.source.Repositories {
		if names, err := pattern.ParseNames([]string{p}); err == nil && matches(names, name, twin) {
			part.Repositories = append(part.Repositories, p)
		}
	}
	return part.text()
}

// Part is the decision as a sentence that names no callers and repositories but those that it is
// about. It is for callers who may not read the rules; only [Rules.Explain] knows it.
func (d Decision) Part() string {
	if d.Rule >= 0 {
		d.text = d.part
	}
	return d.String()
}

// String is the decision as a sentence.
func (d Decision) String() string {
	verb := "denied"
	if d.Allowed {
		verb = "allowed"
	}
	if d.maker != "" {
		verb += " to its maker " + d.maker
	}
	switch {
	case d.Own:
		return verb + " by the caller's own grants"
	case d.Rule < 0:
		if strings.HasPrefix(d.text, ":") {
			return verb + d.text + d.also
		}
		return verb + ": no rule allows it" + d.also
	default:
		return fmt.Sprintf("%s by rules[%d]: %s%s", verb, d.Rule, d.text, d.also)
	}
}
