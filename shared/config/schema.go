package config

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"time"
)

type kind int

const (
	leaf kind = iota
	section
	list
	dict
	twin
	dead
	refused
	moved
)

// field is what the struct tree says about one key.
type field struct {
	name     string
	path     string
	kind     kind
	typ      reflect.Type
	tag      reflect.StructTag
	index    int
	optional bool
	parent   *field
	children []*field
	elem     *field
}

var (
	secretType   = reflect.TypeFor[Secret]()
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[Size]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// markOf is the kind of key that a marker type stands for.
func markOf(t reflect.Type) (k kind, marked bool) {
	switch t {
	case reflect.TypeFor[Dead]():
		return dead, true
	case reflect.TypeFor[Refused]():
		return refused, true
	case reflect.TypeFor[Moved]():
		return moved, true
	}
	return leaf, false
}

// status is the word for a key that is no working setting.
func (k kind) status() string {
	switch k {
	case dead:
		return StatusDead
	case refused:
		return StatusRefused
	case moved:
		return StatusMoved
	}
	return ""
}

// schemaOf reads the struct type into a tree of fields.
func schemaOf(t reflect.Type) *field {
	root := &field{kind: section, typ: t}
	root.addChildren()
	return root
}

func (f *field) addChildren() {
	for i := range f.typ.NumField() {
		sf := f.typ.Field(i)
		name := sf.Tag.Get("key")
		if name == "" {
			continue
		}
		child := &field{name: name, path: joinPath(f.path, name), tag: sf.Tag, index: i, parent: f}
		child.setType(sf.Type)
		f.children = append(f.children, child)
		if child.typ == secretType {
			f.children = append(f.children, child.fileTwin())
		}
	}
}

// setType decides what kind of key a Go type stands for.
func (f *field) setType(t reflect.Type) {
	if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		f.optional, t = true, t.Elem()
	}
	f.typ = t
	mark, marked := markOf(t)
	switch {
	case marked:
		f.kind = mark
	case f.isText():
		f.kind = leaf
	case t.Kind() == reflect.Struct:
		f.kind = section
		f.addChildren()
	case t.Kind() == reflect.Slice:
		f.kind = list
		f.elem = f.element(f.path + "[]")
	case t.Kind() == reflect.Map:
		f.kind = dict
		f.elem = f.element(f.path + ".<name>")
	}
}

// isText reports whether the value is written as one scalar although its Go
// kind would say otherwise.
func (f *field) isText() bool {
	return f.typ == secretType || reflect.PointerTo(f.typ).Implements(textType)
}

// element describes what a list or map holds; it shares the tag, so that
// choices apply to each element.
func (f *field) element(path string) *field {
	e := &field{path: path, tag: f.tag, parent: f}
	e.setType(f.typ.Elem())
	return e
}

func (f *field) fileTwin() *field {
	doc := "File to read " + f.path + " from."
	return &field{
		name: f.name + "_file", path: f.path + "_file", kind: twin, index: f.index, parent: f.parent,
		typ: reflect.TypeFor[string](), tag: reflect.StructTag(`doc:"` + doc + `"`),
	}
}

// child returns the key called name, by its own name or another one.
func (f *field) child(name string) *field {
	for _, c := range f.children {
		if c.name == name || slices.Contains(c.words("alias"), name) {
			return c
		}
	}
	return nil
}

// words splits a tag with several values.
func (f *field) words(tag string) []string {
	value := f.tag.Get(tag)
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}

// envNames are the upper-case names of the key in a variable.
func (f *field) envNames() []string {
	env := f.words("env")
	if slices.Contains(env, "-") {
		return nil
	}
	names := append([]string{strings.ToUpper(f.name)}, env...)
	for _, alias := range f.words("alias") {
		names = append(names, strings.ToUpper(alias))
	}
	return names
}

// free reports whether any YAML value fits.
func (f *field) free() bool { return f.kind == leaf && f.typ.Kind() == reflect.Interface }

func joinPath(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}
