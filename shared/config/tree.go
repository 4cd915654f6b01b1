package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"slipway/shared/fileerror"
)

// A configuration is a tree of YAML nodes until it is decoded: viper would lose which keys
// are present, their case, and where they stand. The HeadComment of a node holds its origin:
// "config.yml:12", or the name of a variable.

// Limits of a file: aliases can make a short one describe a huge tree, or one
// without end.
const (
	maxFile  = 4 << 20
	maxNodes = 100_000
	maxDepth = 64
)

var errTooLarge = errors.New("too many or too deeply nested values")

func scalar(value, origin string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, HeadComment: origin}
}

// become turns a node into an empty one of another kind, in place. The kind 0 stands for
// no value.
func become(n *yaml.Node, k yaml.Kind) {
	*n = yaml.Node{Kind: k, HeadComment: n.HeadComment}
	if k == 0 {
		n.Kind, n.Tag = yaml.ScalarNode, "!!null"
	}
}

func isNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

func quoted(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
}

// kid returns the value of a key, nil if there is none.
func kid(n *yaml.Node, key string) *yaml.Node {
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

// put adds a key to a mapping, or replaces its value.
func put(n *yaml.Node, key string, value *yaml.Node) {
	if old := kid(n, key); old != nil {
		*old = *value
		return
	}
	n.Content = append(n.Content, scalar(key, ""), value)
}

// drop removes a key from a mapping.
func drop(n *yaml.Node, key string) {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
			return
		}
	}
}

// empty reports whether a value asks for nothing, at any depth.
func empty(n *yaml.Node) bool {
	if n.Kind == yaml.ScalarNode {
		return isNull(n) || n.Value == "" || n.Value == "false"
	}
	for i, one := range n.Content {
		if isKey := n.Kind == yaml.MappingNode && i%2 == 0; !isKey && !empty(one) {
			return false
		}
	}
	return true
}

func joinPath(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}

func itemPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// parser turns one YAML document into a tree without aliases and merge keys.
type parser struct {
	origin   func(line int) string
	env      map[string]string // for references to variables; nil leaves them alone
	problems *Problems
	count    int
}

// parse reads one document; an empty one is a node without value.
func (p *parser) parse(source []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(source))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		n := &yaml.Node{HeadComment: p.origin(0)}
		become(n, 0)
		return n, nil
	} else if err != nil {
		return nil, fmt.Errorf("not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&second); err == nil {
		return nil, fmt.Errorf("more than one YAML document: the second begins on line %d", second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document")
	}
	return p.node(doc.Content[0], "", doc.Content[0].Line, 0)
}

func (p *parser) node(y *yaml.Node, path string, line, depth int) (*yaml.Node, error) {
	if p.count++; p.count > maxNodes || depth > maxDepth {
		return nil, errTooLarge
	}
	n := &yaml.Node{Kind: y.Kind, Style: y.Style, Tag: y.Tag, Value: y.Value, HeadComment: p.origin(line)}
	switch y.Kind {
	case yaml.AliasNode:
		return p.node(y.Alias, path, line, depth+1)
	case yaml.MappingNode:
		return n, p.mapping(n, y, path, depth)
	case yaml.SequenceNode:
		for i, item := range y.Content {
			one, err := p.node(item, itemPath(path, i), item.Line, depth+1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, one)
		}
	case yaml.ScalarNode:
		if n.ShortTag() == "!!timestamp" {
			n.Tag = "!!str"
		}
		p.expand(n, path)
	}
	return n, nil
}

func (p *parser) mapping(n, y *yaml.Node, path string, depth int) error {
	var merges []*yaml.Node
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, at := y.Content[i], joinPath(path, y.Content[i].Value)
		if key.ShortTag() == "!!merge" {
			merges = append(merges, y.Content[i+1])
			continue
		}
		if key.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a key must be a word", key.Line)
		}
		value, err := p.node(y.Content[i+1], at, key.Line, depth+1)
		if err != nil {
			return err
		}
		if first := seen[key.Value]; first != nil {
			p.problems.add(at, value.HeadComment, "is given twice, first at %s", first.HeadComment)
			continue
		}
		seen[key.Value] = value
		n.Content = append(n.Content, scalar(key.Value, ""), value)
	}
	for _, m := range merges {
		if err := p.merge(n, m, seen, path, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// merge adds what `<<: *anchor` brings; keys written out win.
func (p *parser) merge(into, from *yaml.Node, seen map[string]*yaml.Node, path string, depth int) error {
	n, err := p.node(from, path, from.Line, depth)
	if err != nil {
		return err
	}
	sources := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		sources = n.Content
	}
	for _, source := range sources {
		if source.Kind != yaml.MappingNode {
			return fmt.Errorf("line %d: only a section can be merged", from.Line)
		}
		for i := 0; i < len(source.Content); i += 2 {
			if key := source.Content[i]; seen[key.Value] == nil {
				seen[key.Value] = source.Content[i+1]
				into.Content = append(into.Content, key, source.Content[i+1])
			}
		}
	}
	return nil
}

// reference is $$, ${VAR}, ${VAR:-text}, or a ${ that is none of them.
var reference = regexp.MustCompile(`\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}|\$\{`)

// expand replaces references to variables in a value, and $$ by a dollar sign. What a
// variable holds cannot become structure.
func (p *parser) expand(n *yaml.Node, path string) {
	if p.env == nil || !strings.Contains(n.Value, "$") {
		return
	}
	variable := ""
	n.Value = reference.ReplaceAllStringFunc(n.Value, func(match string) string {
		m := reference.FindStringSubmatch(match)
		switch name := m[1]; {
		case match == "$$":
			return "$"
		case name == "":
			p.problems.add(path, n.HeadComment, "${ does not name a variable such as ${NAME}; write $$ for a dollar sign")
		case p.env[name] != "":
			variable = name
			return p.env[name]
		case m[2] != "":
			variable = name
			return m[3]
		default:
			p.problems.add(path, n.HeadComment, "the variable %s is not set; ${%[1]s:-text} gives it a default", name)
		}
		return match
	})
	if variable == "" {
		return
	}
	n.HeadComment += " ${" + variable + "}"
	if n.Tag = ""; isNull(n) || n.ShortTag() == "!!merge" {
		n.Tag = "!!str"
	}
}

func readLimited(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: name the configuration file in it", path)
	}
	if err == nil && info.Size() > maxFile {
		return nil, fmt.Errorf("%s is too large for a configuration file: at most %d MiB", path, maxFile>>20)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration file cannot be read: %w", fileerror.Explain(path, err))
	}
	return source, nil
}
