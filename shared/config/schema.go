package config

import (
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
	secretFile // names the file of the secret before it
	dead
	refused
	moved
)

// Dead is the type of a key that only a part without successor had: giving it
// is harmless and answered with a warning.
type Dead struct{}

// Refused is the type of a key that is known and will not be supported: giving
// it is an error with the reason of its "why" tag.
type Refused struct{}

// Moved is the type of a key that has another name now: its value is used for
// the path of its "to" tag unless that one is given as well.
type Moved struct{}

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
)

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
			f.children = append(f.children, &field{
				name: name + "_file", path: child.path + "_file", kind: secretFile, typ: reflect.TypeFor[string](), tag: sf.Tag, index: i, parent: f,
			})
		}
	}
}

// setType decides what kind of key a Go type stands for.
func (f *field) setType(t reflect.Type) {
	if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		f.optional, t = true, t.Elem()
	}
	f.typ = t
	switch {
	case t == reflect.TypeFor[Dead]():
		f.kind = dead
	case t == reflect.TypeFor[Refused]():
		f.kind = refused
	case t == reflect.TypeFor[Moved]():
		f.kind = moved
	case t == secretType:
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

// element describes what a list or map holds; it shares the tag, so that
// choices apply to each element.
func (f *field) element(path string) *field {
	e := &field{path: path, tag: f.tag, parent: f}
	e.setType(f.typ.Elem())
	return e
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
