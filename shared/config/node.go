package config

import (
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

type shape int

const (
	null shape = iota
	scalar
	mapping
	sequence
)

// node is one value of the tree that file and environment make together. It
// keeps what viper would lose: whether a key is present, its case, and where
// it came from.
type node struct {
	shape  shape
	text   string
	tag    string
	quoted bool
	keys   []string
	kids   map[string]*node
	items  []*node
	origin Origin

	// path and field are known once the node has been checked.
	path  string
	field *field
}

func newMapping(o Origin) *node {
	return &node{shape: mapping, kids: map[string]*node{}, origin: o}
}

// kid returns the value of key, nil when there is none.
func (n *node) kid(key string) *node {
	if n == nil {
		return nil
	}
	return n.kids[key]
}

func (n *node) put(key string, value *node) {
	if _, found := n.kids[key]; !found {
		n.keys = append(n.keys, key)
	}
	n.kids[key] = value
}

func (n *node) drop(key string) {
	delete(n.kids, key)
	n.keys = slices.DeleteFunc(n.keys, func(k string) bool { return k == key })
}

// become turns the node into an empty one of another shape, in place.
func (n *node) become(s shape) {
	*n = node{shape: s, kids: map[string]*node{}, origin: n.origin, path: n.path, field: n.field}
}

// empty reports whether the value asks for nothing, at any depth.
func (n *node) empty() bool {
	switch n.shape {
	case scalar:
		return n.text == "" || n.text == "false"
	case mapping:
		for _, kid := range n.kids {
			if !kid.empty() {
				return false
			}
		}
	case sequence:
		return len(n.items) == 0
	}
	return true
}

func itemPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// value turns the node into what YAML says it is, for settings of any type.
func (n *node) value() (any, error) {
	switch n.shape {
	case scalar:
		return n.scalarValue()
	case mapping:
		m := make(map[string]any, len(n.keys))
		for _, key := range n.keys {
			v, err := n.kids[key].value()
			if err != nil {
				return nil, err
			}
			m[key] = v
		}
		return m, nil
	case sequence:
		s := make([]any, len(n.items))
		for i, item := range n.items {
			v, err := item.value()
			if err != nil {
				return nil, err
			}
			s[i] = v
		}
		return s, nil
	}
	return nil, nil
}

func (n *node) scalarValue() (any, error) {
	if n.quoted || n.tag == "!!timestamp" {
		return n.text, nil
	}
	var v any
	err := (&yaml.Node{Kind: yaml.ScalarNode, Tag: n.tag, Value: n.text}).Decode(&v)
	return v, err
}
