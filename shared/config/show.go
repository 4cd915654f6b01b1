package config

import (
	"cmp"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Show writes the loaded target as YAML that could be loaded again, with the
// origin of each value behind it and secrets hidden, those in URLs too.
func (r *Report) Show(w io.Writer, target any) error {
	v := reflect.ValueOf(target).Elem()
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(r.sectionNode(schemaOf(v.Type()), v, "")); err != nil {
		return err
	}
	return enc.Close()
}

func (r *Report) sectionNode(f *field, v reflect.Value, path string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, c := range f.children {
		if c.kind > dict {
			continue
		}
		if fv := fieldOf(v, c); fv.IsValid() {
			n.Content = append(n.Content, textNode(c.name), r.valueNode(c, fv, joinPath(path, c.name)))
		}
	}
	return r.withOrigin(n, path)
}

func (r *Report) valueNode(f *field, v reflect.Value, path string) *yaml.Node {
	switch f.kind {
	case section:
		return r.sectionNode(f, v, path)
	case list:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			n.Content = append(n.Content, r.valueNode(f.elem, v.Index(i), itemPath(path, i)))
		}
		return r.withOrigin(n, path)
	case dict:
		return r.dictNode(f, v, path)
	}
	n := leafNode(f, v)
	n.LineComment = cmp.Or(r.origins[path], "default")
	return n
}

func (r *Report) dictNode(f *field, v reflect.Value, path string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	for _, key := range keys {
		value := r.valueNode(f.elem, v.MapIndex(key), joinPath(path, key.String()))
		n.Content = append(n.Content, textNode(key.String()), value)
	}
	return r.withOrigin(n, path)
}

// withOrigin gives a value without content its origin; one with content has
// it on each line below.
func (r *Report) withOrigin(n *yaml.Node, path string) *yaml.Node {
	if len(n.Content) == 0 && path != "" {
		n.Style, n.LineComment = yaml.FlowStyle, cmp.Or(r.origins[path], "default")
	}
	return n
}

// leafNode is the value as YAML writes it: text that could be taken for
// something else in quotes, a structure of any kind on one line.
func leafNode(f *field, v reflect.Value) *yaml.Node {
	value := v.Interface()
	switch f.typeName() {
	case "boolean", "number", "integer", "any value":
	default:
		value = WithoutCredentials(scalarText(v))
	}
	n := encodeNode(value)
	n.Style |= yaml.FlowStyle
	if f.typ == sizeType {
		n.Tag, n.Style = "", 0 // a size may look like a number
	}
	return n
}

// WithoutCredentials hides the password of a URL and the values of its query,
// where tokens are often given; other text stays as it is.
func WithoutCredentials(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return text
	}
	_, password := u.User.Password()
	if !password && u.RawQuery == "" {
		return text
	}
	parameters := strings.Split(u.RawQuery, "&")
	for i, p := range parameters {
		name, _, named := strings.Cut(p, "=")
		switch {
		case named:
			parameters[i] = name + "=" + mask
		case p != "":
			parameters[i] = mask
		}
	}
	u.RawQuery = strings.Join(parameters, "&")
	return u.Redacted()
}

// shownText is a value as a message may repeat it.
func shownText(f *field, text string) string {
	if f.typ == secretType {
		return mask
	}
	return WithoutCredentials(text)
}

func textNode(text string) *yaml.Node { return encodeNode(text) }

// encodeNode writes plain values, which cannot fail.
func encodeNode(v any) *yaml.Node {
	n := new(yaml.Node)
	if err := n.Encode(v); err != nil {
		n.SetString(err.Error())
	}
	return n
}
