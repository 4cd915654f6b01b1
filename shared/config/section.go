package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// section returns what viper decodes into v, the section f at path, and prepares v for it: optional
// sections that are not given are nil, those given and list elements hold their defaults, and lists
// and maps given do not mix with theirs. n is nil if the section is not given.
func (l *loader) section(f *field, n *yaml.Node, path string, v reflect.Value) map[string]any {
	if n != nil {
		f.open(n)
		l.report.Origins[path] = n.HeadComment
		if !isNull(n) && n.Kind != yaml.MappingNode {
			l.wrong(n, path, "is a section, not one value or a list%s", f.hint(n.Value))
		}
	}
	l.checkKeys(f, n, path)
	values := map[string]any{}
	for _, c := range f.children {
		given, at := c.in(n), joinPath(path, c.name)
		switch {
		case c.kind == secretFile && !isNull(given):
			values[strings.TrimSuffix(c.name, "_file")] = l.readSecret(n, given, at)
		case c.kind <= dict:
			if value := l.value(c, given, at, v.Field(c.index)); value != nil {
				values[c.name] = value
			}
		}
	}
	return values
}

// checkKeys finds the keys of a section that are no settings.
func (l *loader) checkKeys(f *field, n *yaml.Node, path string) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	seen := map[*field]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, given := n.Content[i].Value, n.Content[i+1]
		at, c := joinPath(path, key), f.child(key)
		switch {
		case c == nil:
			l.wrong(given, at, "is not a setting%s", f.hint(key))
		case seen[c]:
			l.wrong(given, at, "is another name of %s, which is given too", c.name)
		case c.kind == dead:
			l.warnf("%s does nothing: %s (%s)", at, c.tag.Get("why"), given.HeadComment)
		case c.kind == refused && !isEmpty(given):
			l.wrong(given, at, "is not supported: %s", c.tag.Get("why"))
		}
		seen[c] = true
	}
}

// isEmpty reports whether a value asks for nothing.
func isEmpty(n *yaml.Node) bool {
	return len(n.Content) == 0 && (n.Kind != yaml.ScalarNode || isNull(n) || n.Value == "" || n.Value == "false")
}

// value returns what viper decodes into v, the setting f at path: nil for what v holds.
func (l *loader) value(f *field, n *yaml.Node, path string, v reflect.Value) any {
	switch {
	case f.optional && n == nil:
		v.SetZero()
		return nil
	case f.optional:
		fresh := reflect.New(f.typ)
		if !v.IsNil() {
			fresh.Elem().Set(v.Elem())
		}
		v.Set(fresh)
		return l.section(f, n, path, v.Elem())
	case f.kind == section:
		return l.section(f, n, path, v)
	case f.kind == list:
		return l.list(f, n, path, v)
	case isNull(n):
		return nil
	}
	l.report.Origins[path] = n.HeadComment
	if f.kind == dict {
		return l.dict(f, n, path, v)
	}
	return l.leaf(f, n, path)
}

func (l *loader) list(f *field, n *yaml.Node, path string, v reflect.Value) any {
	pattern := reflect.Zero(f.elem.typ)
	if f.elem.kind == section {
		if v.Len() > 0 {
			pattern = v.Index(0)
		}
		v.SetZero()
	}
	if isNull(n) {
		return nil
	}
	l.report.Origins[path] = n.HeadComment
	if n.Kind != yaml.SequenceNode {
		return l.wrong(n, path, "is a list, such as [a, b]")
	}
	items := make([]any, len(n.Content))
	v.Set(reflect.MakeSlice(f.typ, len(items), len(items)))
	for i, item := range n.Content {
		at := itemPath(path, i)
		v.Index(i).Set(pattern)
		switch {
		case !isNull(item):
			items[i] = l.value(f.elem, item, at, v.Index(i))
		case i == 0 || !isNull(n.Content[i-1]): // one error for a gap, which a variable's index can make long
			l.wrong(item, at, "is empty")
		}
	}
	return items
}

// entries are those of a map. viper changes no key inside them to lower case.
type entries map[string]any

func (l *loader) dict(f *field, n *yaml.Node, path string, v reflect.Value) any {
	if n.Kind != yaml.MappingNode {
		return l.wrong(n, path, "is a map of names to values")
	}
	v.Set(reflect.MakeMap(f.typ))
	values := entries{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		values[key] = l.value(f.elem, n.Content[i+1], joinPath(path, key), reflect.New(f.elem.typ).Elem())
	}
	return values
}

// wrong adds a problem with the value n; the setting keeps its default.
func (l *loader) wrong(n *yaml.Node, path, format string, args ...any) any {
	l.problems.add(path, n.HeadComment, format, args...)
	return nil
}
