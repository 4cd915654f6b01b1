package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
)

// maxFile bounds the configuration file.
const maxFile = 4 << 20

type loader struct {
	options  Options
	schema   *field
	vars     []variable
	root     *node
	problems Problems
	warnings []string
}

// Load fills target, a pointer to a struct that holds the defaults, from the
// file and the environment, and lets it validate itself. The report is never
// nil; after an error the target holds what could be read, and must not be run with.
func Load(target any, o Options) (*Report, error) {
	v := reflect.ValueOf(target).Elem()
	l := &loader{options: o, schema: schemaOf(v.Type()), vars: variables(o.Environ)}
	if err := l.readFile(); err != nil {
		return &Report{}, err
	}
	l.mergeEnvironment()
	l.settle(l.schema, l.root)
	prepare(v, l.schema, l.root)
	l.decode(target)
	report := l.report()
	l.validate(target, report)
	return report, l.problems.Err()
}

func (l *loader) readFile() error {
	l.root = newMapping(Origin{})
	source := l.options.Source
	if l.options.File == "" && source == nil {
		return nil
	}
	if source == nil {
		var err error
		if source, err = readLimited(l.options.File); err != nil {
			return err
		}
	}
	root, err := l.parser().parse(source)
	if err != nil {
		return fmt.Errorf("%s: %w", l.options.File, err)
	}
	l.root.origin = root.origin
	if l.check(l.schema, root, ""); root.shape == mapping {
		l.root = root
	}
	return nil
}

func readLimited(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration file cannot be read: %w", Unreadable(path, err))
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: name the configuration file in it", path)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s is too large for a configuration file: at most %d MiB", path, maxFile>>20)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration file cannot be read: %w", Unreadable(path, err))
	}
	return source, nil
}

func (l *loader) parser() *parser {
	p := &parser{
		origin:   func(line int) Origin { return Origin{File: l.options.File, Line: line} },
		problems: &l.problems,
	}
	if l.options.Expand {
		env := make(map[string]string, len(l.vars))
		for _, v := range l.vars {
			env[v.name] = v.value
		}
		p.expand = expander(env)
	}
	return p
}

func (l *loader) warnf(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

func (l *loader) report() *Report {
	r := &Report{Warnings: l.warnings, origins: map[string]Origin{}}
	l.root.origins(r.origins)
	return r
}

// origins notes where every value comes from, by its path. A key without a
// value has the default.
func (n *node) origins(into map[string]Origin) {
	if n.shape != null || n.field == nil || n.field.kind != leaf {
		into[n.path] = n.origin
	}
	if n.field != nil && n.field.free() {
		return
	}
	for _, kid := range n.kids {
		kid.origins(into)
	}
	for _, item := range n.items {
		item.origins(into)
	}
}

// validate asks the target what is wrong with its values, leaving out what
// only follows from a mistake named already.
func (l *loader) validate(target any, r *Report) {
	v, ok := target.(interface{ Validate() error })
	if !ok {
		return
	}
	known := slices.Clone(l.problems.list)
	for _, p := range problemsIn(v.Validate()) {
		if slices.ContainsFunc(known, func(k *Problem) bool { return follows(p.Key, strings.TrimSuffix(k.Key, "_file")) }) {
			continue
		}
		if p.Origin == (Origin{}) {
			p.Origin = r.around(p.Key)
		}
		l.problems.list = append(l.problems.list, p)
	}
}

// around is the origin of key or of the section it is missing from.
func (r *Report) around(key string) Origin {
	for key != "" {
		if o, found := r.origins[key]; found {
			return o
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return Origin{}
}

// problemsIn flattens what Validate returned.
func problemsIn(err error) []*Problem {
	var p *Problem
	switch joined, ok := err.(interface{ Unwrap() []error }); {
	case err == nil:
		return nil
	case ok:
		var all []*Problem
		for _, one := range joined.Unwrap() {
			all = append(all, problemsIn(one)...)
		}
		return all
	case errors.As(err, &p):
		return []*Problem{p}
	}
	return []*Problem{{Text: err.Error()}}
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
