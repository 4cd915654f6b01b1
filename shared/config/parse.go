package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of a file: aliases can make a short one describe a huge tree, or one
// without end.
const (
	maxNodes = 100_000
	maxDepth = 64
)

var errTooLarge = errors.New("too many or too deeply nested values")

// parser turns YAML into nodes that know where they stand.
type parser struct {
	origin   func(line int) Origin
	expand   func(text string) (string, string, error)
	problems *Problems
	count    int
}

// parse reads one document; an empty one is a null node.
func (p *parser) parse(source []byte) (*node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(source))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return &node{origin: p.origin(0)}, nil
	} else if err != nil {
		return nil, fmt.Errorf("not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document" + secondAt(second.Line))
	}
	return p.node(doc.Content[0], "", 0)
}

func secondAt(line int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf(": the second begins on line %d", line)
}

func (p *parser) node(y *yaml.Node, path string, depth int) (*node, error) {
	if p.count++; p.count > maxNodes || depth > maxDepth {
		return nil, errTooLarge
	}
	switch y.Kind {
	case yaml.AliasNode:
		return p.node(y.Alias, path, depth+1)
	case yaml.MappingNode:
		return p.mapping(y, path, depth)
	case yaml.SequenceNode:
		return p.sequence(y, path, depth)
	case yaml.ScalarNode:
		return p.scalar(y, path), nil
	}
	return nil, fmt.Errorf("line %d: unexpected YAML", y.Line)
}

func (p *parser) sequence(y *yaml.Node, path string, depth int) (*node, error) {
	n := &node{shape: sequence, origin: p.origin(y.Line)}
	for i, item := range y.Content {
		kid, err := p.node(item, itemPath(path, i), depth+1)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, kid)
	}
	return n, nil
}

func (p *parser) mapping(y *yaml.Node, path string, depth int) (*node, error) {
	n := newMapping(p.origin(y.Line))
	var merges []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: a key must be a word", key.Line)
		}
		at := joinPath(path, key.Value)
		kid, err := p.node(value, at, depth+1)
		if err != nil {
			return nil, err
		}
		kid.origin.Line = p.origin(key.Line).Line
		if first := n.kid(key.Value); first != nil {
			p.problems.add(at, kid.origin, "is given twice, first at %s", first.origin)
		}
		n.put(key.Value, kid)
	}
	for _, m := range merges {
		if err := p.merge(n, m, path, depth+1); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// merge adds what `<<: *anchor` brings; keys written out win.
func (p *parser) merge(into *node, from *yaml.Node, path string, depth int) error {
	n, err := p.node(from, path, depth)
	if err != nil {
		return err
	}
	sources := []*node{n}
	if n.shape == sequence {
		sources = n.items
	}
	for _, source := range sources {
		if source.shape != mapping {
			return fmt.Errorf("line %d: only a section can be merged", from.Line)
		}
		for _, key := range source.keys {
			if into.kid(key) == nil {
				into.put(key, source.kids[key])
			}
		}
	}
	return nil
}

func (p *parser) scalar(y *yaml.Node, path string) *node {
	n := &node{shape: scalar, text: y.Value, tag: y.ShortTag(), origin: p.origin(y.Line)}
	n.quoted = y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if n.tag == "!!null" {
		n.shape = null
		return n
	}
	if p.expand == nil || !strings.Contains(n.text, "$") {
		return n
	}
	text, variable, err := p.expand(n.text)
	if err != nil {
		p.problems.add(path, n.origin, "%v", err)
		return n
	}
	if n.text = text; variable != "" {
		n.origin.Variable = variable
		n.retag()
	}
	return n
}

// retag decides again what a plain value is, after its text has changed.
func (n *node) retag() {
	if n.quoted {
		return
	}
	n.tag = (&yaml.Node{Kind: yaml.ScalarNode, Value: n.text}).ShortTag()
	if n.tag == "!!null" || n.tag == "!!merge" {
		n.tag = "!!str"
	}
}
