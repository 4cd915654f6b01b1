package config

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"slipway/shared/plural"
)

// variable is one entry of the environment.
type variable struct{ name, value string }

var number = regexp.MustCompile(`\d+`)

// variables splits the environment, dropping what is empty. A section comes before what is in
// it, and item 2 before item 10.
func variables(environ []string) []variable {
	var vars []variable
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); value != "" {
			vars = append(vars, variable{name, value})
		}
	}
	padded := func(name string) string {
		return number.ReplaceAllStringFunc(name, func(n string) string { return strings.Repeat("0", max(0, 9-len(n))) + n })
	}
	slices.SortFunc(vars, func(a, b variable) int { return cmp.Compare(padded(a.name), padded(b.name)) })
	return vars
}

var injectedPort = regexp.MustCompile(`_PORT_[0-9]+_(TCP|UDP|SCTP)(_|$)`)

// injected reports whether a container platform makes such a variable for a
// service that happens to be called like ours.
func (v variable) injected() bool {
	return strings.HasSuffix(v.name, "_SERVICE_HOST") || strings.HasSuffix(v.name, "_SERVICE_PORT") || strings.Contains(v.name, "_SERVICE_PORT_") ||
		strings.HasSuffix(v.name, "_PORT") && strings.Contains(v.value, "://") ||
		v.name == "REGISTRY_AUTH_FILE" || // podman's and skopeo's credential file
		injectedPort.MatchString(v.name)
}

// mergeEnvironment lays the variables over the tree: those of other names
// first, so that the prefixed ones win.
func (l *loader) mergeEnvironment(vars []variable) {
	for _, v := range vars {
		if path, ok := l.Aliases[v.name]; ok {
			l.mergeVariable(v, variableName(path))
		}
	}
	for _, v := range vars {
		rest, ours := strings.CutPrefix(v.name, l.Prefix+"_")
		if ours && rest != "" && !v.injected() && !slices.Contains(l.Ignore, v.name) {
			l.mergeVariable(v, rest)
		}
	}
}

// variableName is the name of the variable for a path without lists, less the prefix.
func variableName(path string) string { return strings.ToUpper(strings.ReplaceAll(path, ".", "_")) }

func (l *loader) mergeVariable(v variable, rest string) {
	steps, f, unknown := l.schema.resolve(rest, nil)
	if unknown != "" {
		l.unknownVariable(v, f, unknown)
	} else if value := l.variableValue(v, f); value != nil {
		l.put(l.root, "", steps, value)
	}
}

// unknownVariable stops the start when the name leads into a known section or misspells one: a
// setting that its operator believes in must not be lost.
func (l *loader) unknownVariable(v variable, under *field, unknown string) {
	if under.kind != section {
		l.problems.add(v.name, "", "is not a setting; did you mean %s?", envName(l.Prefix, under.path))
		return
	}
	word, after, inside := strings.Cut(unknown, "_")
	if near := under.nearest(word); near != nil {
		name := envName(l.Prefix, near.path)
		_, _, missing := near.resolve(after, nil)
		if inside && missing == "" {
			name += "_" + after
		}
		// A name at the top may be the variable of another program.
		if under.parent != nil || inside && missing == "" || !inside && near.tag.Get("scalar") != "" {
			l.problems.add(v.name, "", "is not a setting; did you mean %s?", name)
			return
		}
	}
	if under.parent != nil {
		l.problems.add(v.name, "", "is not a setting%s", under.contents())
		return
	}
	l.warnf("%s is not a setting and does nothing", v.name)
}

// variableValue parses the text of a variable for its field. Text wanted as a
// string stays as it is unless it is quoted: a password may hold what YAML
// would take for structure or comment.
func (l *loader) variableValue(v variable, f *field) *yaml.Node {
	if !utf8.ValidString(v.value) {
		l.problems.add(f.path, v.name, "is not valid UTF-8")
		return nil
	}
	p := &parser{origin: func(int) string { return v.name }, problems: &l.problems}
	n, err := p.parse([]byte(v.value))
	isQuoted := err == nil && n.Kind == yaml.ScalarNode && quoted(n)
	verbatim := f.kind == secretFile || f.kind == leaf && (f.typ == secretType || f.typ == sizeType || f.typ.Kind() == reflect.String)
	if verbatim && !isQuoted || err != nil && f.kind == leaf && f.typ.Kind() == reflect.Interface {
		return scalar(v.value, v.name)
	}
	if err != nil {
		l.problems.add(f.path, v.name, "%v", err)
		return nil
	}
	return n
}

// step is one part of the way from the root to a setting.
type step struct {
	key   string
	index int
	field *field
}

// resolve finds the setting that the rest of a variable's name means. When
// there is none it returns the deepest section that the name leads into.
func (f *field) resolve(rest string, steps []step) (found []step, deepest *field, unknown string) {
	if rest == "" || f.kind == dead || f.kind == refused || f.kind == moved {
		return steps, f, ""
	}
	deepest, unknown = f, rest
	for _, c := range f.candidates(rest) {
		found, under, left := c.field.resolve(c.rest, append(slices.Clone(steps), c.step))
		if left == "" {
			return found, under, ""
		}
		if len(left) < len(unknown) {
			deepest, unknown = under, left
		}
	}
	return nil, deepest, unknown
}

type candidate struct {
	step
	rest string
}

// candidates are the ways into the field that the name allows, the longest
// key first. In a map the rest of the name is the key; in a map of lists a number at its end
// is an index.
func (f *field) candidates(rest string) []candidate {
	var all []candidate
	switch f.kind {
	case section:
		for _, c := range f.children {
			for _, name := range c.envNames() {
				if after, ok := cutWord(rest, name); ok {
					all = append(all, candidate{step{key: c.name, field: c}, after})
				}
			}
		}
		slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(len(a.rest), len(b.rest)) })
	case list:
		word, after, _ := strings.Cut(rest, "_")
		if i, err := strconv.Atoi(word); err == nil && i >= 0 {
			all = append(all, candidate{step{index: i, field: f.elem}, after})
		}
	case dict:
		if i := strings.LastIndexByte(rest, '_'); i > 0 && f.elem.kind == list {
			if _, err := strconv.Atoi(rest[i+1:]); err == nil {
				all = append(all, candidate{step{key: rest[:i], field: f.elem}, rest[i+1:]})
			}
		}
		all = append(all, candidate{step{key: rest, field: f.elem}, ""})
	}
	return all
}

// cutWord cuts a name off the front of rest, when it ends there or at an
// underscore.
func cutWord(rest, name string) (after string, ok bool) {
	if len(rest) < len(name) || !strings.EqualFold(rest[:len(name)], name) {
		return "", false
	}
	if len(rest) == len(name) {
		return "", true
	}
	after, ok = strings.CutPrefix(rest[len(name):], "_")
	return after, ok && after != ""
}

// put lays value into the tree at the end of steps, below the node at.
func (l *loader) put(at *yaml.Node, path string, steps []step, value *yaml.Node) {
	s, kind := steps[0], yaml.MappingNode
	if s.field.parent.kind == list {
		kind = yaml.SequenceNode
	}
	if at.Kind != kind {
		l.value(s.field.parent, at, path) // names the mistake, if it is one
		become(at, kind)
		at.HeadComment = value.HeadComment
	}
	slot := &yaml.Node{HeadComment: value.HeadComment}
	become(slot, 0)
	if kind == yaml.SequenceNode {
		path = itemPath(path, s.index)
		switch n := len(at.Content); {
		case s.index > n:
			l.problems.add(path, value.HeadComment, "index %d is out of range; the list has %s", s.index, plural.Of(n, "entry"))
			return
		case s.index == n:
			at.Content = append(at.Content, slot)
		}
		slot = at.Content[s.index]
	} else {
		key := s.key
		if s.field.parent.kind == dict {
			key = spelling(at, key)
		}
		path = joinPath(path, key)
		if kid(at, key) == nil {
			put(at, key, slot)
		}
		slot = kid(at, key)
	}
	if len(steps) > 1 {
		l.put(slot, path, steps[1:], value)
		return
	}
	*slot = *value
	l.normalize(s.field, slot, path)
	if s.field.kind == secretFile { // of a secret and its file, the later counts
		drop(at, strings.TrimSuffix(s.key, "_file"))
	} else if s.field.typ == secretType {
		drop(at, s.key+"_file")
	}
}

// spelling is the key of a map that a variable means: the one already there
// whatever its case; else small letters when the name is all capitals.
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
