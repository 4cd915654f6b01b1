package config

import (
	"cmp"
	"encoding"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"slipway/shared/duration"
)

// Leaf is one setting a configuration can have.
type Leaf struct {
	// Path is the key in the file: health.http[].uri, http.headers.<name>.
	Path string
	// Type is a word for the kind of value: string, duration, list of string; empty for a
	// key that has no value: one that is dead or refused.
	Type string
	// Default is the value without file and environment; empty for none.
	Default string
	// Choices are the values allowed, when they are a closed set.
	Choices []string

	field *field
}

// Walk lists every setting of target, a pointer to a struct that holds the
// defaults, in the order of the struct. The files of secrets are left out.
func Walk(target any) []Leaf {
	v := reflect.ValueOf(target).Elem()
	return schemaOf(v.Type()).leaves(v)
}

func (f *field) leaves(v reflect.Value) (all []Leaf) {
	if f.kind == list && f.elem.kind == section {
		if f = f.elem; v.IsValid() && v.Len() > 0 {
			v = v.Index(0)
		} else {
			v = reflect.Value{}
		}
	}
	if f.kind != section || len(f.children) == 0 {
		return []Leaf{{Path: f.path, Type: f.typeName(), Default: defaultText(v), Choices: words(f.tag, "choices"), field: f}}
	}
	for _, c := range f.children {
		if c.kind != secretFile {
			all = append(all, c.leaves(fieldOf(v, c))...)
		}
	}
	return all
}

// fieldOf returns the value of a section's key, without the pointer of an
// optional section; the zero Value when there is none.
func fieldOf(v reflect.Value, f *field) reflect.Value {
	if !v.IsValid() {
		return v
	}
	v = v.Field(f.index)
	if f.optional {
		return v.Elem()
	}
	return v
}

func (f *field) typeName() string {
	switch {
	case f.kind == list:
		return "list of " + f.elem.typeName()
	case f.kind == dict:
		return "map of " + f.elem.typeName()
	case f.kind == section:
		return "section"
	case f.kind != leaf:
		return ""
	case f.typ == secretType:
		return "secret"
	case f.typ == durationType:
		return "duration"
	case f.typ == sizeType:
		return "size"
	}
	switch f.typ.Kind() {
	case reflect.Interface:
		return "any value"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	}
	return "string"
}

// defaultText writes a default as one would write it in the file.
func defaultText(v reflect.Value) string {
	switch {
	case !v.IsValid() || v.Kind() == reflect.Struct && v.Type() != secretType || v.Kind() == reflect.Map && v.Len() == 0:
		return ""
	case v.Kind() == reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = defaultText(v.Index(i))
		}
		return strings.Join(items, ", ")
	case v.Kind() == reflect.Map:
		n := encoded(v.Interface())
		n.Style = yaml.FlowStyle
		text, err := yaml.Marshal(n)
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(string(text))
	}
	return scalarText(v)
}

func scalarText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return duration.Format(x)
	case encoding.TextMarshaler:
		text, _ := x.MarshalText()
		return string(text)
	}
	return fmt.Sprint(v.Interface())
}

// Reference writes introduction, and then every setting of target, a pointer to
// a struct that holds the defaults, as Markdown: a heading, the YAML with the defaults, and a list for each section, and one list for the
// keys without a section. An entry has an anchor, a key, its default or else its kind unless that is string, and its meaning. Keys without
// effect are listed at the end.
func Reference(w io.Writer, introduction string, target any) error {
	v := reflect.ValueOf(target).Elem()
	var out, alone strings.Builder
	out.WriteString(introduction)
	var ineffective []string
	for _, f := range schemaOf(v.Type()).children {
		var parts []*part
		for _, leaf := range f.leaves(fieldOf(v, f)) {
			if leaf.field.kind == dead {
				ineffective = append(ineffective, leaf.Path)
				continue
			}
			name := leaf.section()
			i := slices.IndexFunc(parts, func(p *part) bool { return p.name == name })
			switch {
			case i < 0 && name == f.name: // its own keys precede those of sections in it
				i, parts = 0, slices.Insert(parts, 0, &part{name: name})
			case i < 0:
				i, parts = len(parts), append(parts, &part{name: name})
			}
			parts[i].leaves = append(parts[i].leaves, leaf)
		}
		if f.kind != section {
			for _, p := range parts {
				p.writeList(&alone)
			}
			continue
		}
		fmt.Fprintf(&out, "\n## %s\n\n", f.name)
		if doc := f.tag.Get("doc"); doc != "" {
			fmt.Fprintf(&out, "%s\n\n", markdown(doc))
		}
		for i, p := range parts {
			if p.name != f.name {
				if i > 0 {
					out.WriteString("\n")
				}
				fmt.Fprintf(&out, "### %s\n\n", markdown(p.name))
			}
			if text := p.yaml(); text != "" {
				fmt.Fprintf(&out, "<!-- not checked: defaults, of which some exclude others -->\n```yaml\n%s```\n\n", text)
			}
			p.writeList(&out)
		}
		if chosen := f.choices(); len(chosen) > 0 {
			fmt.Fprintf(&out, "\nOptional: %s.\n", code(chosen...))
		}
	}
	if alone.Len() > 0 {
		out.WriteString("\n## Other keys\n\n" + alone.String())
	}
	if len(ineffective) > 0 {
		fmt.Fprintf(&out, "\n## Without effect\n\nAccepted with a warning: %s.\n", code(ineffective...))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// part is a section's own keys, without those of sections in it.
type part struct {
	name   string // path of the section
	leaves []Leaf
}

// section returns the path of the section that has the key.
func (l Leaf) section() string {
	i := strings.LastIndexByte(l.Path, '.')
	return l.Path[:max(i, 0)]
}

// writeList writes an entry for each key.
func (p *part) writeList(out *strings.Builder) {
	for _, l := range p.leaves {
		fmt.Fprintf(out, "- <a id=\"%s\"></a>%s%s\n", anchor(l.Path), code(l.Path), l.entry())
	}
}

// anchor makes an identifier of a key.
func anchor(key string) string { return strings.NewReplacer("[]", "", "<", "", ">", "").Replace(key) }

// yaml returns the part of a configuration with the keys and their defaults, empty if none has one. Keys without a default are comments.
func (p *part) yaml() string {
	var out strings.Builder
	indent, dash := "", ""
	for name := range strings.SplitSeq(p.name, ".") {
		name, isList := strings.CutSuffix(name, "[]")
		if name == "" || strings.HasPrefix(name, "<") {
			return ""
		}
		fmt.Fprintf(&out, "%s%s%s:\n", indent, dash, name)
		if indent += strings.Repeat(" ", len(dash)) + "  "; isList {
			dash = "- "
		} else {
			dash = ""
		}
	}
	known := false
	for _, l := range p.leaves {
		key := l.Path[strings.LastIndexByte(l.Path, '.')+1:]
		value, ok := l.yaml()
		switch {
		case l.field.kind == refused || strings.HasPrefix(key, "<"):
			continue
		case ok:
			fmt.Fprintf(&out, "%s%s%s: %s\n", indent, dash, key, value)
			if dash != "" {
				indent, dash = indent+"  ", ""
			}
			known = true
		default:
			fmt.Fprintf(&out, "%s# %s:\n", indent, key)
		}
	}
	if !known {
		return ""
	}
	return out.String()
}

// yaml returns the default as it is written in a file, and whether there is one.
func (l Leaf) yaml() (string, bool) {
	switch {
	case l.Default == "":
		return "", false
	case strings.HasPrefix(l.Type, "list of "):
		return "[" + l.Default + "]", true
	case l.Type == "string":
		text, err := yaml.Marshal(l.Default)
		return strings.TrimSpace(string(text)), err == nil
	}
	return l.Default, true
}

// choices are the paths of the optional sections in f and f itself.
func (f *field) choices() []string {
	var paths []string
	if f.optional && len(f.children) > 0 {
		paths = append(paths, f.path)
	}
	for _, c := range f.children {
		paths = append(paths, c.choices()...)
	}
	return paths
}

// entry describes a key in the reference.
func (l Leaf) entry() string {
	var out strings.Builder
	kind := strings.ReplaceAll(l.Type, " of string", "")
	if kind == "string" {
		kind = ""
	}
	if kind = cmp.Or(code(l.Default), kind); kind != "" {
		fmt.Fprintf(&out, " (%s)", kind)
	}
	doc := markdown(l.field.tag.Get("doc"))
	if l.field.kind == refused {
		doc = "**Refused**: " + markdown(l.field.tag.Get("why")) + "."
	}
	if len(l.Choices) > 1 {
		doc = strings.TrimSpace(doc + " One of " + code(l.Choices...) + ".")
	}
	if aliases := words(l.field.tag, "alias"); len(aliases) > 0 && l.field.kind != refused {
		doc += " Also " + code(aliases...) + "."
	}
	if doc != "" {
		fmt.Fprintf(&out, ": %s", doc)
	}
	return out.String()
}

// code sets each text in backticks.
func code(texts ...string) string {
	var set []string
	for _, text := range texts {
		if text != "" {
			set = append(set, "`"+strings.ReplaceAll(text, "|", "\\|")+"`")
		}
	}
	return strings.Join(set, ", ")
}

// markdown makes plain text of what Markdown would take for markup.
func markdown(text string) string {
	return strings.NewReplacer("*", "\\*", "<", "&lt;", "|", "\\|", "_", "\\_").Replace(text)
}
