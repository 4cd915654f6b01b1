// Package openapitest holds a service's answers against the OpenAPI document that describes them.
package openapitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// Document is the part of an OpenAPI document that tests read.
type Document struct {
	Paths      map[string]map[string]yaml.Node `yaml:"paths"`
	Components struct {
		Schemas   map[string]*Schema  `yaml:"schemas"`
		Responses map[string]Response `yaml:"responses"`
	} `yaml:"components"`
}

// Operation is a method at a path.
type Operation struct {
	ID        string              `yaml:"operationId"`
	Body      *Response           `yaml:"requestBody"`
	Responses map[string]Response `yaml:"responses"`
}

// Response is an answer, or the body of a request.
type Response struct {
	Ref     string `yaml:"$ref"`
	Content map[string]struct {
		Schema   *Schema `yaml:"schema"`
		Examples map[string]struct {
			Value any `yaml:"value"`
		} `yaml:"examples"`
	} `yaml:"content"`
}

// Schema describes a JSON value.
type Schema struct {
	Ref        string             `yaml:"$ref"`
	Type       any                `yaml:"type"`
	Format     string             `yaml:"format"`
	Required   []string           `yaml:"required"`
	Properties map[string]*Schema `yaml:"properties"`
	Additional *Schema            `yaml:"additionalProperties"`
	Items      *Schema            `yaml:"items"`
	Enum       []any              `yaml:"enum"`
	AllOf      []*Schema          `yaml:"allOf"`
}

// Read parses a document.
func Read(t testing.TB, content []byte) *Document {
	t.Helper()
	d := &Document{}
	if err := yaml.Unmarshal(content, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Operation returns the description of a method at a path, nil if there is none.
func (d *Document) Operation(t testing.TB, method, path string) *Operation {
	t.Helper()
	node, ok := d.Paths[path][strings.ToLower(method)]
	if !ok {
		return nil
	}
	op := &Operation{}
	if err := node.Decode(op); err != nil {
		t.Fatal(err)
	}
	return op
}

// CheckGenerators requires what generators of clients need: a unique name for each operation and
// examples that fit their schemas.
func (d *Document) CheckGenerators(t testing.TB) {
	t.Helper()
	names := map[string]string{}
	for path, item := range d.Paths {
		for method := range item {
			if method == "parameters" {
				continue
			}
			op, at := d.Operation(t, method, path), method+" "+path
			if op.ID == "" || names[op.ID] != "" {
				t.Errorf("%s: the operationId %q is empty or that of %s", at, op.ID, names[op.ID])
			}
			names[op.ID] = at
			d.checkExamples(t, at, op)
		}
	}
}

func (d *Document) checkExamples(t testing.TB, at string, op *Operation) {
	t.Helper()
	if op.Body == nil {
		return
	}
	for kind, content := range op.Body.Content {
		for name, example := range content.Examples {
			var v any
			text, err := json.Marshal(example.Value)
			if err == nil {
				err = json.Unmarshal(text, &v)
			}
			if err != nil {
				t.Errorf("%s: example %s: %v", at, name, err)
				continue
			}
			for _, wrong := range d.Mismatches(content.Schema, v, kind+" example "+name) {
				t.Errorf("%s: %s", at, wrong)
			}
		}
	}
}

// CheckRoutes requires the document to describe the routes that are served and no others. A route is
// written as "GET /path".
func (d *Document) CheckRoutes(t testing.TB, routes []string) {
	t.Helper()
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		if d.Operation(t, method, path) == nil {
			t.Errorf("%s is not in the document", route)
		}
	}
	for path, item := range d.Paths {
		for method := range item {
			if route := strings.ToUpper(method) + " " + path; method != "parameters" && !slices.Contains(routes, route) {
				t.Errorf("%s is in the document and not served", route)
			}
		}
	}
}

// CheckFields requires a schema to have the JSON fields of a struct, and of those in it.
func (d *Document) CheckFields(t testing.TB, s *Schema, kind reflect.Type, at string) {
	t.Helper()
	s = d.flat(s)
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice && s.Items != nil {
		if kind.Kind() == reflect.Slice {
			s = d.flat(s.Items)
		}
		kind = kind.Elem()
	}
	if kind.Kind() == reflect.Int64 && s.Type == "integer" && s.Format != "int64" {
		t.Errorf("%s is no int64", at)
	}
	if kind.Kind() != reflect.Struct || reflect.PointerTo(kind).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return
	}
	for _, f := range reflect.VisibleFields(kind) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch known := s.Properties[name]; {
		case f.Anonymous, !f.IsExported(), name == "-":
		case known == nil:
			t.Errorf("%s.%s is not documented", at, name)
		default:
			d.CheckFields(t, known, f.Type, at+"."+name)
		}
	}
}

// CheckAnswer holds an answer against the document's description of its status.
func (d *Document) CheckAnswer(t testing.TB, what string, op *Operation, status int, header http.Header, body []byte) {
	t.Helper()
	if op == nil {
		t.Errorf("%s is not documented", what)
		return
	}
	said, ok := op.Responses[strconv.Itoa(status)]
	if !ok {
		t.Errorf("%s: the status %d is not documented", what, status)
		return
	}
	if said.Ref != "" {
		said = d.Components.Responses[said.Ref[strings.LastIndexByte(said.Ref, '/')+1:]]
	}
	if len(said.Content) == 0 && len(body) == 0 {
		return
	}
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	content, ok := said.Content[kind]
	if !ok {
		t.Errorf("%s: the type %q is not documented", what, kind)
		return
	}
	if content.Schema == nil {
		return
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Errorf("%s: %v in %q", what, err, body)
		return
	}
	for _, wrong := range d.Mismatches(content.Schema, v, "body") {
		t.Errorf("%s: %s", what, wrong)
	}
}

// Mismatches returns where a value differs from a schema. at names the value. A field that the
// schema does not know is one that the document forgot.
func (d *Document) Mismatches(s *Schema, v any, at string) (wrong []string) {
	s = d.flat(s)
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		wrong = append(wrong, fmt.Sprintf("%s is %v, not one of %v", at, v, s.Enum))
	}
	if s.Type == nil && s.Properties == nil {
		return wrong // any value
	}
	if kind := kindOf(v); !slices.Contains(s.types(), kind) {
		return append(wrong, fmt.Sprintf("%s is %s, want %v", at, kind, s.types()))
	}
	switch v := v.(type) {
	case string:
		if _, err := time.Parse(time.RFC3339Nano, v); s.Format == "date-time" && err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", at, err))
		}
	case []any:
		for i, item := range v {
			wrong = append(wrong, d.Mismatches(s.Items, item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		wrong = append(wrong, d.fieldMismatches(s, v, at)...)
	}
	return wrong
}

func (d *Document) fieldMismatches(s *Schema, v map[string]any, at string) (wrong []string) {
	for _, name := range s.Required {
		if _, there := v[name]; !there {
			wrong = append(wrong, at+"."+name+" is missing")
		}
	}
	for name, field := range v {
		switch known := s.Properties[name]; {
		case known != nil:
			wrong = append(wrong, d.Mismatches(known, field, at+"."+name)...)
		case s.Additional != nil:
			wrong = append(wrong, d.Mismatches(s.Additional, field, at+"."+name)...)
		case len(s.Properties) > 0:
			wrong = append(wrong, at+"."+name+" is not documented")
		}
	}
	return wrong
}

// flat resolves a reference and joins what allOf lists.
func (d *Document) flat(s *Schema) *Schema {
	if s.Ref != "" {
		return d.flat(d.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]])
	}
	if len(s.AllOf) == 0 {
		return s
	}
	all := &Schema{Type: "object", Properties: map[string]*Schema{}}
	for _, part := range s.AllOf {
		part = d.flat(part)
		all.Required = append(all.Required, part.Required...)
		for name, field := range part.Properties {
			all.Properties[name] = field
		}
	}
	return all
}

func (s *Schema) types() (names []string) {
	switch t := s.Type.(type) {
	case string:
		names = []string{t}
	case []any:
		for _, name := range t {
			names = append(names, fmt.Sprint(name))
		}
	}
	if slices.Contains(names, "integer") {
		names = append(names, "number")
	}
	return names
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}
