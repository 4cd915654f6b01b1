package config

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
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
)

// Dead is the type of a key that only a part without successor had: giving it
// is harmless and answered with a warning.
type Dead struct{}

// Refused is the type of a key that is known and will not be supported: giving
// it content is an error with the reason of its "why" tag.
type Refused struct{}

// field describes one key of the struct tree.
type field struct {
	name     string
	names    []string // name and its aliases
	path     string
	kind     kind
	typ      reflect.Type
	tag      reflect.StructTag
	index    int
	optional bool
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
	root := &field{}
	root.setType(t)
	return root
}

func (f *field) addChildren() {
	for i := range f.typ.NumField() {
		sf := f.typ.Field(i)
		name := sf.Tag.Get("key")
		if name == "" {
			continue
		}
		child := &field{name: name, names: append([]string{name}, words(sf.Tag, "alias")...), path: joinPath(f.path, name), tag: sf.Tag, index: i}
		child.setType(sf.Type)
		f.children = append(f.children, child)
		if child.typ == secretType {
			file := *child
			file.name, file.path, file.kind = name+"_file", child.path+"_file", secretFile
			file.names = []string{file.name}
			f.children = append(f.children, &file)
		}
	}
}

// setType decides what kind of key a Go type stands for.
func (f *field) setType(t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		f.optional, t = true, t.Elem()
	}
	f.typ = t
	switch {
	case t == reflect.TypeFor[Dead]():
		f.kind = dead
	case t == reflect.TypeFor[Refused]():
		f.kind = refused
	case t == secretType:
		f.kind = leaf
	case t.Kind() == reflect.Struct:
		f.kind = section
		f.addChildren()
	case t.Kind() == reflect.Slice:
		f.kind, f.elem = list, f.element("[]")
	case t.Kind() == reflect.Map:
		f.kind, f.elem = dict, f.element(".<name>")
	}
}

// element describes what a list or map holds; it shares the tag, so that
// choices apply to each element.
func (f *field) element(suffix string) *field {
	e := &field{path: f.path + suffix, tag: f.tag}
	e.setType(f.typ.Elem())
	return e
}

// child returns the key called name, by its own name or another one.
func (f *field) child(name string) *field {
	for _, c := range f.children {
		for _, n := range c.names {
			if n == name {
				return c
			}
		}
	}
	return nil
}

// in returns the value of the key in the section n, nil if it isn't given.
func (f *field) in(n *yaml.Node) *yaml.Node {
	for _, name := range f.names {
		if given := valueOf(n, name); given != nil {
			return given
		}
	}
	return nil
}

// open turns the name of an optional section, which stands for the section around it, into that.
func (f *field) open(n *yaml.Node) {
	if c := f.child(n.Value); n.Kind == yaml.ScalarNode && c != nil && c.optional {
		*n = yaml.Node{Kind: yaml.MappingNode, HeadComment: n.HeadComment, Content: []*yaml.Node{text(c.name, ""), null(n.HeadComment)}}
	}
}

// words splits a tag with several values.
func words(tag reflect.StructTag, key string) []string {
	if value := tag.Get(key); value != "" {
		return strings.Split(value, ",")
	}
	return nil
}

func joinPath(parent, name string) string { return strings.TrimPrefix(parent+"."+name, ".") }

func itemPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
