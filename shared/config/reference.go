package config

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Reference writes introduction, and then every setting of target, a pointer to
// a struct that holds the defaults, as Markdown: a list for each section and one for the keys without
// a section. An entry has a key, its default or else its kind, and its meaning. Keys without effect are
// listed at the end; the files of secrets are left out.
func Reference(w io.Writer, introduction string, target any, prefix string) error {
	v := reflect.ValueOf(target).Elem()
	var out strings.Builder
	out.WriteString(introduction)
	var alone []Leaf
	var dead []string
	for _, f := range schemaOf(v.Type()).children {
		part := walker{prefix: prefix}
		part.visit(f, fieldOf(v, f))
		part.leaves = slices.DeleteFunc(part.leaves, func(l Leaf) bool {
			if l.Status == StatusDead {
				dead = append(dead, l.Path)
			}
			return l.Status == StatusDead || l.Type == "path" // a twin
		})
		if f.kind != section {
			alone = append(alone, part.leaves...)
			continue
		}
		writeSection(&out, f.name, f.tag.Get("doc"), part.leaves)
		if chosen := f.choices(); len(chosen) > 0 {
			fmt.Fprintf(&out, "\nOff unless given, if only by name: %s.\n", code(chosen...))
		}
	}
	if len(alone) > 0 {
		writeSection(&out, "Other keys", "", alone)
	}
	if len(dead) > 0 {
		fmt.Fprintf(&out, "\n## Without effect\n\nAccepted with a warning: %s.\n", code(dead...))
	}
	_, err := io.WriteString(w, out.String())
	return err
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

func writeSection(out *strings.Builder, title, doc string, leaves []Leaf) {
	fmt.Fprintf(out, "\n## %s\n\n", title)
	if doc != "" {
		fmt.Fprintf(out, "%s\n\n", markdown(doc))
	}
	for _, leaf := range leaves {
		leaf.writeEntry(out)
	}
}

func (l Leaf) writeEntry(out *strings.Builder) {
	fmt.Fprintf(out, "- %s", code(l.Path))
	if kind := cmp.Or(code(l.Default), l.Type); kind != "" {
		fmt.Fprintf(out, " (%s)", kind)
	}
	if meaning := l.meaning(); meaning != "" {
		fmt.Fprintf(out, ": %s", meaning)
	}
	out.WriteString("\n")
}

// meaning describes the key, or why it is refused.
func (l Leaf) meaning() string {
	doc := markdown(l.Doc)
	if l.Status == StatusRefused {
		return "**Refused**: " + doc + "."
	}
	if len(l.Choices) > 1 {
		doc = strings.TrimSpace(doc + " One of " + code(l.Choices...) + ".")
	}
	if len(l.Aliases) > 0 {
		doc += " Also " + code(l.Aliases...) + "."
	}
	return doc
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
