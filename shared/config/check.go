package config

import (
	"slices"
	"strings"
)

// check compares a value with the field it is meant for, names every mistake,
// and brings what is right into one form: aliases become the key's own name, a
// single word that names an optional section becomes that section. What is
// wrong is emptied, so that it is reported once.
func (l *loader) check(f *field, n *node, path string) {
	n.path, n.field = path, f
	if n.shape == null {
		return
	}
	switch f.kind {
	case section:
		l.checkSection(f, n)
	case list:
		l.checkList(f, n)
	case dict:
		l.checkDict(f, n)
	case leaf, twin:
		if n.shape != scalar && !f.free() {
			l.wrong(n, "is one value, not a list or a section")
		}
	}
}

func (l *loader) wrong(n *node, format string, args ...any) {
	l.problems.add(n.path, n.origin, format, args...)
	n.become(null)
}

func (l *loader) checkSection(f *field, n *node) {
	if n.shape == scalar && !l.unfold(f, n) {
		return
	}
	if n.shape != mapping {
		l.wrong(n, "is a section, not a list")
		return
	}
	for _, key := range slices.Clone(n.keys) {
		kid := n.kids[key]
		at := joinPath(n.path, key)
		child := f.child(key)
		if child == nil {
			l.problems.add(at, kid.origin, "is not a setting%s", f.hint(key))
			n.drop(key)
			continue
		}
		if key != child.name {
			l.rename(n, key, child.name)
		}
		l.check(child, kid, joinPath(n.path, child.name))
	}
}

// unfold turns the word given for a section into the section inside it that
// the word names.
func (l *loader) unfold(f *field, n *node) bool {
	if f.tag.Get("scalar") == "" {
		l.wrong(n, "is a section, such as {%s: …}, not one value", firstName(f))
		return false
	}
	child := f.child(n.text)
	if child == nil || !child.selectable() {
		l.wrong(n, "there is no %q; there are %s", n.text, strings.Join(f.selectableNames(), ", "))
		return false
	}
	kid := &node{origin: n.origin}
	n.become(mapping)
	n.put(child.name, kid)
	return true
}

func firstName(f *field) string {
	if len(f.children) == 0 {
		return ""
	}
	return f.children[0].name
}

// selectable reports whether a single word may stand for the key.
func (f *field) selectable() bool { return f.optional || f.kind == refused }

func (l *loader) rename(n *node, from, to string) {
	kid := n.kids[from]
	if other := n.kid(to); other != nil {
		l.problems.add(joinPath(n.path, from), kid.origin, "is another name of %s, which is given too (%s)", to, other.origin)
		n.drop(from)
		return
	}
	n.kids[to] = kid
	delete(n.kids, from)
	n.keys[slices.Index(n.keys, from)] = to
}

func (l *loader) checkList(f *field, n *node) {
	switch n.shape {
	case scalar:
		l.wrong(n, "must be a list, e.g. [%s]", shownText(f.elem, n.text))
	case mapping:
		l.wrong(n, "is a list, not a section")
	}
	for i, item := range n.items {
		if item.shape == null && f.elem.kind == leaf {
			l.problems.add(itemPath(n.path, i), item.origin, "is empty")
		}
		l.check(f.elem, item, itemPath(n.path, i))
	}
}

func (l *loader) checkDict(f *field, n *node) {
	if n.shape != mapping {
		l.wrong(n, "is a map of names to values")
		return
	}
	for _, key := range n.keys {
		l.check(f.elem, n.kids[key], joinPath(n.path, key))
	}
}

// selectableNames are the words that may stand for a section.
func (f *field) selectableNames() []string {
	var names []string
	for _, c := range f.children {
		if c.optional {
			names = append(names, c.name)
		}
	}
	return names
}

// choose returns the choice that text is, whatever its case.
func choose(text string, choices []string) (string, bool) {
	for _, c := range choices {
		if strings.EqualFold(text, c) {
			return c, true
		}
	}
	return "", false
}
