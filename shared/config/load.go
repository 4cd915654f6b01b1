package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

type loader struct {
	Options
	schema   *field
	root     *yaml.Node
	problems Problems
	report   *Report
}

// Load fills target, a pointer to a struct that holds the defaults, from the
// file and the environment, and lets it validate itself. The report is never
// nil; after an error the target holds what could be read, and must not be run with.
func Load(target any, o Options) (*Report, error) {
	v := reflect.ValueOf(target).Elem()
	l := &loader{Options: o, schema: schemaOf(v.Type()), report: &Report{origins: map[string]string{}}}
	vars := variables(o.Environ)
	if err := l.readFile(vars); err != nil {
		return l.report, err
	}
	l.mergeEnvironment(vars)
	l.move(l.schema, l.root)
	values, _ := l.value(l.schema, l.root, "").(map[string]any)
	prepare(v, l.schema, l.root)
	if err := decode(target, values); err != nil {
		l.problems.Addf("", "%v", err)
	}
	l.validate(target)
	return l.report, l.problems.Err()
}

// decode fills the target. viper separates the parts of keys by a character that none
// has, so that a dot in the name of a map's entry is only a dot.
func decode(target any, values map[string]any) error {
	v := viper.NewWithOptions(viper.KeyDelimiter("\x1f"))
	if err := v.MergeConfigMap(values); err != nil {
		return err
	}
	return v.UnmarshalExact(target, func(c *mapstructure.DecoderConfig) { c.TagName, c.WeaklyTypedInput = "key", false })
}

func (l *loader) readFile(vars []variable) error {
	l.root = &yaml.Node{Kind: yaml.MappingNode}
	source := l.Source
	if source == nil {
		if l.File == "" {
			return nil
		}
		var err error
		if source, err = readLimited(l.File); err != nil {
			return err
		}
	}
	p := &parser{origin: func(line int) string { return fmt.Sprintf("%s:%d", l.File, line) }, problems: &l.problems}
	if l.Expand {
		p.env = map[string]string{}
		for _, v := range vars {
			p.env[v.name] = v.value
		}
	}
	root, err := p.parse(source)
	if err != nil {
		return fmt.Errorf("%s: %w", l.File, err)
	}
	if isNull(root) {
		become(root, yaml.MappingNode)
	}
	l.root = root
	l.normalize(l.schema, root, "")
	return nil
}

// normalize gives each key its own name in place of an alias, and a section that a single
// word names its long form.
func (l *loader) normalize(f *field, n *yaml.Node, path string) {
	switch {
	case f.kind == list && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			l.normalize(f.elem, item, itemPath(path, i))
		}
	case f.kind == section && n.Kind == yaml.ScalarNode && f.tag.Get("scalar") != "":
		if c := f.child(n.Value); c != nil && (c.optional || c.kind == refused) {
			chosen := &yaml.Node{HeadComment: n.HeadComment}
			become(chosen, 0)
			become(n, yaml.MappingNode)
			put(n, c.name, chosen)
		}
	case f.kind == section && n.Kind == yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			c := f.child(key.Value)
			if c == nil {
				continue
			}
			if own := kid(n, c.name); key.Value != c.name && own != nil {
				l.problems.add(joinPath(path, key.Value), value.HeadComment, "is another name of %s, which is given too (%s)", c.name, own.HeadComment)
				n.Content = slices.Delete(n.Content, i, i+2)
				i -= 2
				continue
			}
			key.Value = c.name
			l.normalize(c, value, joinPath(path, c.name))
		}
	}
}

// move brings values to the new names of their keys, unless those are given too.
func (l *loader) move(f *field, n *yaml.Node) {
	for _, c := range f.children {
		old := kid(n, c.name)
		if old == nil {
			continue
		}
		if c.kind != moved {
			l.move(c, old)
			continue
		}
		drop(n, c.name)
		to := c.tag.Get("to")
		l.warnf("%s is an old name of %s (%s)", c.path, to, old.HeadComment)
		given := l.root
		for key := range strings.SplitSeq(to, ".") {
			given = kid(given, key)
		}
		if isNull(given) {
			steps, _, _ := l.schema.resolve(variableName(to), nil)
			l.put(l.root, "", steps, old)
		}
	}
}

func (l *loader) warnf(format string, args ...any) {
	l.report.Warnings = append(l.report.Warnings, fmt.Sprintf(format, args...))
}

// validate asks the target what is wrong with its values, leaving out what
// only follows from a mistake named already.
func (l *loader) validate(target any) {
	v, ok := target.(interface{ Validate() error })
	if !ok {
		return
	}
	known := slices.Clone(l.problems.list)
	for _, err := range joined(v.Validate()) {
		p := &Problem{Text: err.Error()}
		if errors.As(err, &p); slices.ContainsFunc(known, func(k *Problem) bool { return follows(p.Key, strings.TrimSuffix(k.Key, "_file")) }) {
			continue
		}
		for at := p.Key; p.Origin == "" && at != ""; at = at[:max(0, strings.LastIndexAny(at, ".["))] {
			p.Origin = l.report.origins[at]
		}
		l.problems.list = append(l.problems.list, p)
	}
}

func joined(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return all.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// follows reports whether a problem with key is due to the mistake already
// found at known: the same key, one inside it, or the section around it.
func follows(key, known string) bool {
	return key == known || within(known, key) || within(key, known)
}

func within(key, section string) bool {
	rest, ok := strings.CutPrefix(key, section)
	return ok && section != "" && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// prepare makes the target hold exactly what decoding must find: optional
// sections that are not given are nil, those given and list elements stand
// there with their defaults, and lists and maps given do not mix with theirs.
func prepare(v reflect.Value, f *field, n *yaml.Node) {
	for _, c := range f.children {
		if c.kind == secretFile {
			continue
		}
		fv, given := v.Field(c.index), kid(n, c.name)
		switch {
		case c.optional && given == nil:
			fv.SetZero()
		case c.optional:
			fresh := reflect.New(c.typ)
			if !fv.IsNil() {
				fresh.Elem().Set(fv.Elem())
			}
			prepare(fresh.Elem(), c, given)
			fv.Set(fresh)
		case c.kind == section:
			prepare(fv, c, given)
		case c.kind == list && c.elem.kind == section:
			fv.Set(prepareItems(fv, c, given))
		case (c.kind == list || c.kind == dict) && !isNull(given):
			fv.SetZero()
		}
	}
}

// prepareItems makes as many copies of the first element, the pattern, as the
// list has.
func prepareItems(v reflect.Value, f *field, n *yaml.Node) reflect.Value {
	if n == nil || n.Kind != yaml.SequenceNode {
		return reflect.Zero(v.Type())
	}
	items := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if v.Len() > 0 {
			items.Index(i).Set(v.Index(0))
		}
		prepare(items.Index(i), f.elem, item)
	}
	return items
}
