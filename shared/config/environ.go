package config

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// variable is one entry of the environment.
type variable struct{ name, value string }

var injectedPort = regexp.MustCompile(`_PORT_[0-9]+_(TCP|UDP|SCTP)(_|$)`)

// injected reports whether the variable looks like one that a container platform sets for a
// service whose name is our prefix.
func (v variable) injected() bool {
	return strings.HasSuffix(v.name, "_SERVICE_HOST") || strings.HasSuffix(v.name, "_SERVICE_PORT") || strings.Contains(v.name, "_SERVICE_PORT_") ||
		strings.HasSuffix(v.name, "_PORT") && strings.Contains(v.value, "://") ||
		v.name == "REGISTRY_AUTH_FILE" || // podman's and skopeo's credential file
		injectedPort.MatchString(v.name)
}

// mergeEnvironment lays the variables over the tree, each section before what is in it and those
// of other names first, so that the prefixed ones win.
func (l *loader) mergeEnvironment(schema *field, root *yaml.Node) {
	var prefixed []variable
	for _, entry := range slices.Sorted(slices.Values(l.Environ)) {
		name, value, _ := strings.Cut(entry, "=")
		v := variable{name, value}
		rest, ours := strings.CutPrefix(name, l.Prefix+"_")
		switch path := l.Aliases[name]; {
		case value == "" || slices.Contains(l.Ignore, name):
		case path != "":
			l.assign(v, schema, root, strings.ToUpper(strings.ReplaceAll(path, ".", "_")))
		case ours && rest != "" && !v.injected():
			prefixed = append(prefixed, v)
		}
	}
	for _, v := range prefixed {
		l.assign(v, schema, root, strings.TrimPrefix(v.name, l.Prefix+"_"))
	}
}

// maxItems bounds the index of a list in a variable's name.
const maxItems = 1000

// assign gives the variable's value to the setting below n, the node of f, to which the rest of the
// name leads.
func (l *loader) assign(v variable, f *field, n *yaml.Node, rest string) {
	if rest == "" || f.kind == dead || f.kind == refused {
		if value := l.variableValue(v, f); value != nil {
			*n = *value
		}
		return
	}
	switch f.kind {
	case section:
		c, after := f.match(rest)
		if c == nil {
			l.unknown(v, f, rest)
			return
		}
		f.open(n)
		for _, other := range f.children { // of a secret and its file, the later counts
			if given := other.in(n); other.index == c.index && other != c && given != nil {
				*given = *null("")
			}
		}
		if c.in(n) == nil {
			v.add(n, c.name)
		}
		if slot := c.in(n); slot != nil {
			l.assign(v, c, slot, after)
		}
	case list:
		word, after, _ := strings.Cut(rest, "_")
		i, err := strconv.Atoi(word)
		if err != nil || i < 0 || i >= maxItems {
			l.unknown(v, f, rest)
			return
		}
		if isNull(n) {
			*n = yaml.Node{Kind: yaml.SequenceNode, HeadComment: v.name}
		}
		for n.Kind == yaml.SequenceNode && i >= len(n.Content) {
			n.Content = append(n.Content, null(v.name))
		}
		if n.Kind == yaml.SequenceNode {
			l.assign(v, f.elem, n.Content[i], after)
		}
	case dict:
		key := spelling(n, rest)
		if valueOf(n, key) == nil {
			v.add(n, key)
		}
		if slot := valueOf(n, key); slot != nil {
			l.assign(v, f.elem, slot, "")
		}
	default:
		l.unknown(v, f, rest)
	}
}

// add makes room for a key in the section or map n, unless the file has something else there, which is
// a mistake of its own.
func (v variable) add(n *yaml.Node, key string) {
	if isNull(n) {
		*n = yaml.Node{Kind: yaml.MappingNode, HeadComment: v.name}
	}
	if n.Kind == yaml.MappingNode {
		n.Content = append(n.Content, text(key, ""), null(v.name))
	}
}

// match finds the key that begins the rest of a variable's name, the longest if there are several.
func (f *field) match(rest string) (best *field, after string) {
	for _, c := range f.children {
		for _, name := range c.names {
			left, ok := strings.CutPrefix(rest+"_", strings.ToUpper(name)+"_")
			if ok && (best == nil || len(left) < len(after)) {
				best, after = c, left
			}
		}
	}
	return best, strings.TrimSuffix(after, "_")
}

// unknown returns an error if the name belongs to a section, or would with one word corrected, so
// that a misspelled setting isn't ignored silently. Any other name may be meant for another program.
func (l *loader) unknown(v variable, f *field, rest string) {
	word, after, _ := strings.Cut(rest, "_")
	hint, misspelled := "", false
	if near := f.nearest(word); near != nil {
		known, _ := near.match(after)
		word := near.child(v.value)
		misspelled = known != nil || word != nil && word.optional
		hint = "; did you mean " + strings.TrimSuffix(strings.TrimSuffix(v.name, rest)+strings.ToUpper(near.name)+"_"+after, "_") + "?"
	}
	if f.path == "" && !misspelled {
		l.warnf("%s is not a setting and does nothing%s", v.name, hint)
	} else {
		l.problems.add(v.name, "", "is not a setting%s", hint)
	}
}

// variableValue parses the text of a variable for its field. Text wanted as a
// string stays as it is unless it is quoted: a password may hold what YAML
// would take for structure or comment.
func (l *loader) variableValue(v variable, f *field) *yaml.Node {
	n, err := parse([]byte(v.value), func(int) string { return v.name })
	isText := f.kind == secretFile || f.kind == leaf && (f.typ == secretType || f.typ == sizeType || f.typ.Kind() == reflect.String)
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle
	switch {
	case !utf8.ValidString(v.value):
		l.problems.add(f.path, v.name, "is not valid UTF-8")
		return nil
	case isText && (err != nil || n.Style&quoted == 0):
		return text(v.value, v.name)
	case err != nil:
		l.problems.add(f.path, v.name, "%v", err)
	}
	return n
}

// spelling is the key of a map that a variable means: the one already there
// whatever its case; otherwise lower case if the name is all capitals.
func spelling(n *yaml.Node, key string) string {
	for i := 0; i < len(n.Content); i += 2 {
		if strings.EqualFold(n.Content[i].Value, key) {
			return n.Content[i].Value
		}
	}
	if key == strings.ToUpper(key) {
		return strings.ToLower(key)
	}
	return key
}
