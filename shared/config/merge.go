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
		l.unknownVariable(v, f, unknown)
		return
	}
	if value := l.variableValue(v, f); value != nil {
		l.put(l.root, "", steps, value)
	}
}

// unknownVariable stops the start when the name leads into a known section or misspells one: a
// setting that its operator believes in must not be lost.
func (l *loader) unknownVariable(v variable, under *field, unknown string) {
	switch near := l.nearestVariable(under, unknown); {
	case near != "":
		l.problems.add(v.name, Origin{}, "is not a setting; did you mean %s?", near)
	case under.parent != nil:
		l.problems.add(v.name, Origin{}, "is not a setting%s", under.contents())
	default:
		l.warnf("%s is not a setting and does nothing", v.name)
	}
}

// nearestVariable returns the variable that was most likely meant by a name of which unknown,
// the rest, means nothing below the field under.
func (l *loader) nearestVariable(under *field, unknown string) string {
	if under.kind != section {
		return envName(l.options.Prefix, under.path)
	}
	word, after, inside := strings.Cut(unknown, "_")
	near := under.nearest(word)
	if near == "" {
		return ""
	}
	name := envName(l.options.Prefix, near)
	if whole := name + "_" + after; inside && l.known(whole) {
		return whole
	}
	if under.parent == nil { // it may be the variable of another program
		if c := under.child(near); c == nil || inside || c.tag.Get("scalar") == "" {
			return ""
		}
	}
	return name
}

// known reports whether a variable of that name is a setting.
func (l *loader) known(name string) bool {
	_, _, unknown := l.schema.resolve(strings.TrimPrefix(name, l.options.Prefix+"_"), nil)
	return unknown == ""
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
	*slot = *value
	l.check(s.field, slot, path)
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
