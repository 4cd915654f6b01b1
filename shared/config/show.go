package config

import (
	"cmp"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Show writes the loaded target as YAML that could be loaded again, with the
// origin of each value behind it and secrets hidden, those in URLs too.
func (r *Report) Show(w io.Writer, target any) error {
	v := reflect.ValueOf(target).Elem()
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(r.node(schemaOf(v.Type()), v, "")); err != nil {
		return err
	}
	return enc.Close()
}

func (r *Report) node(f *field, v reflect.Value, path string) *yaml.Node {
	n := new(yaml.Node)
	switch f.kind {
	case section:
		n.Kind = yaml.MappingNode
		for _, c := range f.children {
			if value := fieldOf(v, c); c.kind <= dict && value.IsValid() {
				n.Content = append(n.Content, text(c.name, ""), r.node(c, value, joinPath(path, c.name)))
			}
		}
	case list:
		n.Kind = yaml.SequenceNode
		for i := range v.Len() {
			n.Content = append(n.Content, r.node(f.elem, v.Index(i), itemPath(path, i)))
		}
	case dict:
		n.Kind = yaml.MappingNode
		entries := map[string]reflect.Value{}
		for key, value := range v.Seq2() {
			entries[key.String()] = value
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			n.Content = append(n.Content, encoded(key), r.node(f.elem, entries[key], joinPath(path, key)))
		}
	default:
		n = leafNode(f, v)
	}
	if len(n.Content) == 0 || f.kind == leaf {
		n.Style |= yaml.FlowStyle
		n.LineComment = cmp.Or(r.Origins[path], "default")
	}
	return n
}

// leafNode is the value as YAML writes it: text that could be taken for
// something else in quotes, a structure of any kind on one line.
func leafNode(f *field, v reflect.Value) *yaml.Node {
	switch f.typeName() {
	case "boolean", "integer", "any value":
		return encoded(v.Interface())
	case "size":
		return &yaml.Node{Kind: yaml.ScalarNode, Value: scalarText(v)}
	}
	return encoded(WithoutCredentials(scalarText(v)))
}

// WithoutCredentials hides the password of a URL and its query, where tokens are often given; other
// text stays as it is.
func WithoutCredentials(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return text
	}
	if _, password := u.User.Password(); !password && u.RawQuery == "" {
		return text
	}
	if u.RawQuery != "" {
		u.RawQuery = mask
	}
	return u.Redacted()
}

// encoded writes plain values, which cannot fail.
func encoded(value any) *yaml.Node {
	n := new(yaml.Node)
	if err := n.Encode(value); err != nil {
		n.SetString(err.Error())
	}
	return n
}
