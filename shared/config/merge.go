package config

import (
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"slipway/shared/plural"
)

// mergeEnvironment lays the variables over the tree: those of other names
// first, so that the prefixed ones win.
func (l *loader) mergeEnvironment() {
	for _, v := range l.vars {
		if path, ok := l.options.Aliases[v.name]; ok {
			l.mergeVariable(v, strings.ToUpper(strings.ReplaceAll(path, ".", "_")))
		}
	}
	for _, v := range l.vars {
		rest, ours := strings.CutPrefix(v.name, l.options.Prefix+"_")
		if ours && rest != "" && !v.injected() && !slices.Contains(l.options.Ignore, v.name) {
			l.mergeVariable(v, rest)
		}
	}
}

func (l *loader) mergeVariable(v variable, rest string) {
	steps, f, unknown := l.schema.resolve(rest, nil)
	if unknown != "" {
		l.unknownVariable(v, rest, f, unknown)
		return
	}
	if value := l.variableValue(v, f); value != nil {
		l.put(l.root, "", steps, value)
	}
}

// unknownVariable stops the start when the name leads into a known section or
// misspells one: a setting that its operator believes in must not be lost.
func (l *loader) unknownVariable(v variable, rest string, under *field, unknown string) {
	if under.parent != nil {
		l.problems.add(v.name, Origin{}, "%s", l.unknownInside(under, unknown))
		return
	}
	if near := l.misspelt(rest); near != "" {
		l.problems.add(v.name, Origin{}, "is not a setting; did you mean %s_%s?", l.options.Prefix, near)
		return
	}
	l.warnf("%s is not a setting and does nothing", v.name)
}

// unknownInside is the text of a variable whose name leads into a setting or a
// section and no further.
func (l *loader) unknownInside(under *field, unknown string) string {
	word, after, inside := strings.Cut(unknown, "_")
	if near := under.nearest(strings.ToLower(word)); near != "" && under.kind == section {
		name := envName(l.options.Prefix, near)
		if whole := name + "_" + after; inside && l.known(whole) {
			name = whole
		}
		return "is not a setting; did you mean " + name + "?"
	}
	if under.kind == section {
		return "is not a setting" + under.contents()
	}
	return "is not a setting; did you mean " + envName(l.options.Prefix, under.path) + "?"
}

// known says whether a variable of that name is a setting.
func (l *loader) known(name string) bool {
	_, _, unknown := l.schema.resolve(strings.TrimPrefix(name, l.options.Prefix+"_"), nil)
	return unknown == ""
}

// misspelt returns the name that rest most likely means: one whose section is
// a letter or two away and which is a setting then.
func (l *loader) misspelt(rest string) string {
	word, after, inside := strings.Cut(rest, "_")
	for _, c := range l.schema.children {
		allowed := 1
		if len(c.name) > 4 {
			allowed = 2
		}
		if editDistance(strings.ToLower(word), c.name) > allowed || !inside && c.tag.Get("scalar") == "" {
			continue
		}
		if _, _, unknown := c.resolve(after, nil); unknown == "" && c.kind == section {
			return strings.TrimSuffix(strings.ToUpper(c.name)+"_"+after, "_")
		}
	}
	return ""
}

// variableValue parses the text of a variable for its field. Text wanted as a
// string stays as it is unless it is quoted: a password may hold what YAML
// would take for structure or comment.
func (l *loader) variableValue(v variable, f *field) *node {
	origin := Origin{Variable: v.name}
	if !utf8.ValidString(v.value) {
		l.problems.add(f.path, origin, "is not valid UTF-8")
		return nil
	}
	p := &parser{origin: func(int) Origin { return origin }, problems: &l.problems}
	n, err := p.parse([]byte(v.value))
	quoted := err == nil && n.shape == scalar && n.quoted
	if f.verbatim() && !quoted || err != nil && f.free() {
		return &node{shape: scalar, text: v.value, tag: "!!str", origin: origin}
	}
	if err != nil {
		l.problems.add(f.path, origin, "%v", err)
		return nil
	}
	return n
}

func (f *field) verbatim() bool {
	return f.kind == twin || f.kind == leaf && (f.isText() || f.typ.Kind() == reflect.String)
}

// put lays value into the tree at the end of steps, below the node at.
func (l *loader) put(at *node, path string, steps []step, value *node) {
	s := steps[0]
	slot, path := l.slot(at, path, s, value.origin)
	if slot == nil {
		return
	}
	slot.path, slot.field = path, s.field
	if len(steps) > 1 {
		l.put(slot, path, steps[1:], value)
		return
	}
	lost := lostLeaves(slot, path)
	*slot = *value
	l.check(s.field, slot, path)
	l.warnLost(lost, slot, path)
	dropTwin(at, s.field, value.origin)
}

// slot returns the place that a step leads to, making room for it.
func (l *loader) slot(at *node, path string, s step, o Origin) (*node, string) {
	if s.field.parent.kind == list {
		return l.itemSlot(at, path, s.index, o)
	}
	if at.shape != mapping {
		at.become(mapping)
		at.origin = o
	}
	key := s.key
	if s.field.parent.kind == dict {
		key = spelling(at, key)
	}
	if at.kid(key) == nil {
		at.put(key, &node{origin: o})
	}
	return at.kid(key), joinPath(path, key)
}

func (l *loader) itemSlot(at *node, path string, index int, o Origin) (*node, string) {
	if at.shape != sequence {
		at.become(sequence)
		at.origin = o
	}
	if index > len(at.items) {
		l.problems.add(itemPath(path, index), o, "index %d is out of range; the list has %s", index, plural.Of(len(at.items), "entry"))
		return nil, ""
	}
	if index == len(at.items) {
		at.items = append(at.items, &node{origin: o})
	}
	return at.items[index], itemPath(path, index)
}

// spelling is the key of a map that a variable means: the one already there
// whatever its case; else small letters when the name is all capitals.
func spelling(n *node, key string) string {
	for _, k := range n.keys {
		if strings.EqualFold(k, key) {
			return k
		}
	}
	if key == strings.ToUpper(key) {
		return strings.ToLower(key)
	}
	return key
}

// lostLeaves lists what the file says below a node about to be replaced.
func lostLeaves(n *node, path string) []string {
	if n.shape != mapping {
		return nil
	}
	var lost []string
	n.leaves(path, func(path string, n *node) {
		if n.origin.File != "" {
			lost = append(lost, path)
		}
	})
	return lost
}

// warnLost names the settings of the file that a variable for a whole section
// replaces.
func (l *loader) warnLost(lost []string, now *node, path string) {
	now.leaves(path, func(path string, _ *node) {
		lost = slices.DeleteFunc(lost, func(p string) bool { return p == path })
	})
	if len(lost) > 0 {
		l.warnf("%s replaces the whole of %s; ignored: %s", now.origin, path, strings.Join(lost, ", "))
	}
}

// dropTwin lets a secret from the environment win over its file twin from the
// file, and the other way round.
func dropTwin(n *node, f *field, o Origin) {
	name := f.name + "_file"
	switch other := f.parent.child(name); {
	case f.kind == twin:
		name = strings.TrimSuffix(f.name, "_file")
	case other == nil || other.kind != twin:
		return
	}
	if other := n.kid(name); other != nil && other.origin.Variable == "" && o.Variable != "" {
		n.drop(name)
	}
}
