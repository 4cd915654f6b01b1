package access

import (
	"slices"
	"strings"
)

// Changes describes the rules that one version has and the other lacks, in one line; ""
// if both have the same in the same order.
func Changes(before, after *Rules) string {
	old, now := before.texts(), after.texts()
	var parts []string
	for _, text := range old {
		if !slices.Contains(now, text) {
			parts = append(parts, "removed: "+text)
		}
	}
	for _, text := range now {
		if !slices.Contains(old, text) {
			parts = append(parts, "added: "+text)
		}
	}
	if len(parts) == 0 && !slices.Equal(old, now) {
		return "the rules are the same in another order or number"
	}
	return strings.Join(parts, "; ")
}

// texts are the rules as they are written, with the members of their groups.
func (r *Rules) texts() []string {
	if r == nil {
		return nil
	}
	texts := make([]string, len(r.rules))
	for i := range r.rules {
		texts[i] = r.rules[i].text
		if !strings.Contains(texts[i], "group:") {
			continue
		}
		var members []string
		for _, s := range r.rules[i].who {
			if s.group != "" {
				members = append(members, GroupWord+s.group)
			} else if s.one() {
				members = append(members, (&Caller{Kind: s.kind, Name: s.name}).String())
			}
		}
		texts[i] += " (members: " + strings.Join(members, ", ") + ")"
	}
	return texts
}
