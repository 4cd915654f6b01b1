package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Reference writes introduction, and then every setting of target, a pointer to
// a struct that holds the defaults, as Markdown: a table for the keys without a section and one for
// each section, a row a key with its variable under prefix, its kind, its
// default and its meaning.
func Reference(w io.Writer, introduction string, target any, prefix string) error {
	v := reflect.ValueOf(target).Elem()
	var out strings.Builder
	out.WriteString(introduction)
	var alone []Leaf
	for _, f := range schemaOf(v.Type()).children {
		part := walker{prefix: prefix}
		part.visit(f, fieldOf(v, f))
		if f.kind != section {
			alone = append(alone, part.leaves...)
			continue
		}
		writeTable(&out, f.name, f.tag.Get("doc"), part.leaves)
		if chosen := f.choices(); len(chosen) > 0 {
			fmt.Fprintf(&out, "\nOff unless given, if only by name: %s.\n", code(chosen...))
		}
	}
	if len(alone) > 0 {
		writeTable(&out, "Other keys", "", alone)
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

func writeTable(out *strings.Builder, title, doc string, leaves []Leaf) {
	fmt.Fprintf(out, "\n## %s\n\n", title)
	if doc != "" {
		fmt.Fprintf(out, "%s\n\n", markdown(doc))
	}
	out.WriteString("| key, variable | kind | default | meaning |\n|---|---|---|---|\n")
	for _, leaf := range leaves {
		leaf.writeRow(out)
	}
}

func (l Leaf) writeRow(out *strings.Builder) {
	name := code(l.Path)
	if l.Env != "" && l.Status != StatusRefused {
		name += "<br>" + code(l.Env)
	}
	fmt.Fprintf(out, "| %s | %s | %s | %s |\n", name, l.Type, code(l.Default), l.meaning())
}

// meaning is what the key is for, or what becomes of one that does not work.
func (l Leaf) meaning() string {
	doc := markdown(l.Doc)
	switch l.Status {
	case StatusLater:
		return "**Not implemented**: the service refuses to start with it. " + doc
	case StatusDead:
		return "**Without effect**: " + doc + "."
	case StatusRefused:
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
