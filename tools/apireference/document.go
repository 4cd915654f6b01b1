package main

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is the part of an OpenAPI document that the reference shows.
type document struct {
	Info struct {
		Title       string
		Description string
	}
	Tags []struct {
		Name        string
		Description string
	}
	Security   []map[string][]string
	Paths      ordered[path]
	Components struct {
		SecuritySchemes ordered[scheme] `yaml:"securitySchemes"`
		Responses       ordered[response]
		Schemas         ordered[schema]
	}
}

// ordered is a mapping in the order of the document.
type ordered[T any] struct {
	keys   []string
	values map[string]T
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (o *ordered[T]) UnmarshalYAML(n *yaml.Node) error {
	o.values = map[string]T{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		var v T
		if err := n.Content[i+1].Decode(&v); err != nil {
			return err
		}
		o.keys = append(o.keys, n.Content[i].Value)
		o.values[n.Content[i].Value] = v
	}
	return nil
}

type path struct {
	parameters []parameter
	operations ordered[*operation] // by their methods
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *path) UnmarshalYAML(n *yaml.Node) error {
	var shared struct{ Parameters []parameter }
	if err := n.Decode(&shared); err != nil {
		return err
	}
	p.parameters = shared.Parameters
	for i := 0; i+1 < len(n.Content); i += 2 {
		method := strings.ToUpper(n.Content[i].Value)
		if !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, method) {
			continue
		}
		o := new(operation)
		if err := n.Content[i+1].Decode(o); err != nil {
			return err
		}
		p.operations.set(method, o)
	}
	return nil
}

type operation struct {
	Tags                 []string
	Summary, Description string
	Security             []map[string][]string
	Parameters           []parameter
	RequestBody          *struct {
		Required bool
		Content  ordered[media]
	} `yaml:"requestBody"`
	Responses ordered[response]
}

type parameter struct {
	Name, In, Description string
	Required              bool
	Schema                schema
}

type response struct {
	Ref         string `yaml:"$ref"`
	Description string
	Headers     ordered[struct{ Description string }]
	Content     ordered[media]
}

type media struct {
	Schema   *schema
	Examples ordered[struct{ Value any }]
}

type schema struct {
	Ref                  string `yaml:"$ref"`
	Type                 types
	Format, Description  string
	Enum                 []any
	Default              any
	Minimum, Maximum     *int
	MaxLength            int `yaml:"maxLength"`
	MaxItems             int `yaml:"maxItems"`
	Deprecated           bool
	Required             []string
	Properties           ordered[schema]
	AdditionalProperties *schema `yaml:"additionalProperties"`
	Items                *schema
	AllOf                []schema `yaml:"allOf"`
	OneOf                []schema `yaml:"oneOf"`
}

// types are the names of a schema's types, of which a document may give one or several.
type types []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *types) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*t = types{n.Value}
		return nil
	}
	return n.Decode((*[]string)(t))
}

type scheme struct {
	Type, Scheme, In, Name, Description string
}

// resolve returns the schema that s refers to, or s, and its name.
func (d *document) resolve(s schema) (schema, string) {
	if s.Ref == "" {
		return s, ""
	}
	name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	return d.Components.Schemas.values[name], name
}

// merged returns a schema with the properties of all that it consists of.
func (d *document) merged(s schema) schema {
	s, _ = d.resolve(s)
	for _, part := range s.AllOf {
		part = d.merged(part)
		s.Required = append(s.Required[:len(s.Required):len(s.Required)], part.Required...)
		for _, key := range part.Properties.keys {
			if _, ok := s.Properties.values[key]; !ok {
				s.Properties.set(key, part.Properties.values[key])
			}
		}
	}
	return s
}

func (o *ordered[T]) set(key string, v T) {
	if o.values == nil {
		o.values = map[string]T{}
	}
	o.keys, o.values[key] = append(o.keys, key), v
}

func parse(source []byte) (*document, error) {
	d := new(document)
	if err := yaml.Unmarshal(source, d); err != nil {
		return nil, err
	}
	if d.Info.Title == "" || len(d.Paths.keys) == 0 {
		return nil, fmt.Errorf("no title or no paths")
	}
	return d, nil
}
