package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Walk lists every setting of target, a pointer to a struct that holds the
// defaults, in the order of the struct, with its variable under prefix.
func Walk(target any, prefix string) []Leaf {
	v := reflect.ValueOf(target).Elem()
	w := &walker{prefix: prefix}
	w.section(schemaOf(v.Type()), v)
	return w.leaves
}

type walker struct {
	prefix string
	leaves []Leaf
}

func (w *walker) section(f *field, v reflect.Value) {
	for _, c := range f.children {
		if c.kind == twin {
			w.add(c, reflect.Value{})
			continue
		}
		w.visit(c, fieldOf(v, c))
	}
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

func (w *walker) visit(f *field, v reflect.Value) {
	switch {
	case f.kind == section && len(f.children) > 0:
		w.section(f, v)
	case f.kind == list && f.elem.kind == section:
		var pattern reflect.Value
		if v.IsValid() && v.Len() > 0 {
			pattern = v.Index(0)
		}
		w.section(f.elem, pattern)
	case f.kind == dict && f.elem.kind == section:
		w.section(f.elem, reflect.Value{})
	default:
		w.add(f, v)
	}
}

func (w *walker) add(f *field, v reflect.Value) {
	w.leaves = append(w.leaves, Leaf{
		Path:    f.path,
		Type:    f.typeName(),
		Default: defaultText(v),
		Env:     envName(w.prefix, f.envPath()),
		Doc:     f.docText(),
		Aliases: f.words("alias"),
		Choices: f.words("choices"),
		Status:  f.kind.status(),
	})
}

// Values of Leaf.Status.
const (
	// StatusDead marks a key that does nothing.
	StatusDead = "dead"
	// StatusRefused marks a key that is not supported.
	StatusRefused = "refused"
	// StatusMoved marks an old name of another key.
	StatusMoved = "moved"
)

func (f *field) docText() string {
	if f.kind == moved {
		return "Old name of " + f.tag.Get("to") + "."
	}
	if doc := f.tag.Get("doc"); doc != "" {
		return doc
	}
	return f.tag.Get("why")
}

// envPath is the path with the parts in it that a variable cannot name left
// out, or empty.
func (f *field) envPath() string {
	for at := f; at.parent != nil; at = at.parent {
		if at.name != "" && at.envNames() == nil {
			return ""
		}
	}
	return f.path
}

// envName is the variable for a path: health.tcp[].addr is
// REGISTRY_HEALTH_TCP_<n>_ADDR.
func envName(prefix, path string) string {
	if path == "" {
		return ""
	}
	var out strings.Builder
	out.WriteString(prefix)
	for part := range strings.SplitSeq(path, ".") {
		name, list := strings.CutSuffix(part, "[]")
		if !strings.HasPrefix(name, "<") {
			name = strings.ToUpper(name)
		}
		out.WriteString("_" + name)
		if list {
			out.WriteString("_<n>")
		}
	}
	return out.String()
}

func (f *field) typeName() string {
	switch {
	case f.kind == list:
		return "list of " + f.elem.typeName()
	case f.kind == dict:
		return "map of " + f.elem.typeName()
	case f.kind == section:
		return "section"
	case f.kind == twin:
		return "path"
	case f.kind.status() != "":
		return ""
	case f.typ == secretType:
		return "secret"
	case f.typ == durationType:
		return "duration"
	case f.typ == sizeType:
		return "size"
	}
	return f.plainTypeName()
}

func (f *field) plainTypeName() string {
	switch f.typ.Kind() {
	case reflect.Interface:
		return "any value"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		if !f.isText() {
			return "integer"
		}
	case reflect.Float64:
		return "number"
	}
	return "string"
}

// defaultText writes a default as one would write it in the file.
func defaultText(v reflect.Value) string {
	if !v.IsValid() || v.Kind() == reflect.Struct && v.Type() != secretType {
		return ""
	}
	if v.Kind() == reflect.Slice {
		items := make([]string, v.Len())
		for i := range items {
			items[i] = defaultText(v.Index(i))
		}
		return strings.Join(items, ", ")
	}
	if v.Kind() == reflect.Map {
		return flowText(v)
	}
	return scalarText(v)
}

// flowText writes a map on one line of YAML; empty for one without entries.
func flowText(v reflect.Value) string {
	if v.Len() == 0 {
		return ""
	}
	n := encodeNode(v.Interface())
	n.Style = yaml.FlowStyle
	text, err := yaml.Marshal(n)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

func scalarText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return FormatDuration(x)
	case encoding.TextMarshaler:
		text, _ := x.MarshalText()
		return string(text)
	}
	return fmt.Sprint(v.Interface())
}
