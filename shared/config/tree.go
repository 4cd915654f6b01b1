package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A configuration is a tree of YAML nodes until it is decoded: viper would lose which keys
// are present, their case, and where they stand. The HeadComment of a node holds its origin:
// "config.yml:12", or the name of a variable.

// parse reads one document into a tree without aliases; an empty one is a node without value.
func parse(source []byte, origin func(line int) string) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(source))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return null(origin(0)), nil
	} else if err != nil {
		return nil, notYAML(err)
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document")
	}
	var checked any // finds what nodes don't: keys given twice, aliases without end
	if err := doc.Decode(&checked); err != nil {
		return nil, notYAML(err)
	}
	return plain(doc.Content[0], origin), nil
}

func notYAML(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if all := new(yaml.TypeError); errors.As(err, &all) {
		text = strings.Join(all.Errors, "; ")
	}
	return fmt.Errorf("not YAML: %s", text)
}

// plain copies a node with its origin, and what aliases stand for in their place.
func plain(n *yaml.Node, origin func(line int) string) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return plain(n.Alias, origin)
	}
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Line: n.Line, HeadComment: origin(n.Line)}
	for i, item := range n.Content {
		one := plain(item, origin)
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			one.HeadComment = origin(n.Content[i-1].Line)
		}
		c.Content = append(c.Content, one)
	}
	return c
}

func text(value, origin string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, HeadComment: origin}
}

func null(origin string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", HeadComment: origin}
}

func isNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// valueOf returns the value of a key, nil if there is none.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
