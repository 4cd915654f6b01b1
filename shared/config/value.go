package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"slipway/shared/fileerror"
)

// value returns what viper decodes into the field: a map for a section, else a value of the
// field's type, or nil for the default. It names every mistake on the way and makes it a
// node without value, so that nothing follows from it.
func (l *loader) value(f *field, n *yaml.Node, path string) any {
	if !isNull(n) || f.kind == section {
		l.report.origins[path] = n.HeadComment
	}
	if isNull(n) {
		return nil
	}
	switch {
	case f.kind == section:
		return l.sectionValue(f, n, path)
	case f.kind == list:
		return l.listValue(f, n, path)
	case f.kind == dict:
		return l.dictValue(f, n, path)
	case f.typ.Kind() == reflect.Interface:
		var v any
		if err := n.Decode(&v); err != nil {
			return l.wrong(n, path, "%v", err)
		}
		return v
	case n.Kind != yaml.ScalarNode:
		return l.wrong(n, path, "is one value, not a list or a section")
	}
	v, err := f.read(n.Value)
	if err != nil {
		return l.wrong(n, path, "%v", err)
	}
	return v
}

func (l *loader) wrong(n *yaml.Node, path, format string, args ...any) any {
	l.problems.add(path, n.HeadComment, format, args...)
	become(n, 0)
	return nil
}

func (l *loader) sectionValue(f *field, n *yaml.Node, path string) any {
	switch {
	case n.Kind == yaml.ScalarNode && f.tag.Get("scalar") != "":
		return l.wrong(n, path, "there is no %q; there are %s", n.Value, strings.Join(f.selectable(), ", "))
	case n.Kind == yaml.ScalarNode && len(f.children) > 0:
		return l.wrong(n, path, "is a section, such as {%s: …}, not one value", f.children[0].name)
	case n.Kind != yaml.MappingNode:
		return l.wrong(n, path, "is a section, not a list")
	}
	values := map[string]any{}
	for i := 0; i < len(n.Content); i += 2 {
		key, given := n.Content[i].Value, n.Content[i+1]
		at, c := joinPath(path, key), f.child(key)
		switch {
		case c == nil:
			l.problems.add(at, given.HeadComment, "is not a setting%s", f.hint(key))
		case c.kind == dead:
			l.warnf("%s does nothing: %s (%s)", at, c.tag.Get("why"), given.HeadComment)
		case c.kind == refused:
			if c.tag.Get("empty") != "ok" || !empty(given) {
				l.problems.add(at, given.HeadComment, "is not supported: %s", c.tag.Get("why"))
			}
		case c.kind == secretFile:
			if secret := l.readSecret(n, given, at); !secret.Empty() {
				values[strings.TrimSuffix(key, "_file")] = secret
			}
		default:
			if v := l.value(c, given, at); v != nil {
				values[key] = v
			}
		}
	}
	return values
}

// selectable are the words that may stand for a section.
func (f *field) selectable() (names []string) {
	for _, c := range f.children {
		if c.optional {
			names = append(names, c.name)
		}
	}
	return names
}

func (l *loader) listValue(f *field, n *yaml.Node, path string) any {
	switch n.Kind {
	case yaml.ScalarNode:
		return l.wrong(n, path, "must be a list, e.g. [%s]", shownText(f.elem, n.Value))
	case yaml.MappingNode:
		return l.wrong(n, path, "is a list, not a section")
	}
	if f.elem.kind == section {
		items := make([]any, len(n.Content))
		for i, item := range n.Content {
			if items[i] = l.value(f.elem, item, itemPath(path, i)); items[i] == nil {
				items[i] = map[string]any{}
			}
		}
		return items
	}
	items := reflect.MakeSlice(f.typ, len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if isNull(item) {
			l.problems.add(itemPath(path, i), item.HeadComment, "is empty")
		} else if v := l.value(f.elem, item, itemPath(path, i)); v != nil {
			items.Index(i).Set(reflect.ValueOf(v))
		}
	}
	return items.Interface()
}

// dictValue returns a pointer, inside of which viper changes no key to lower case.
func (l *loader) dictValue(f *field, n *yaml.Node, path string) any {
	if n.Kind != yaml.MappingNode {
		return l.wrong(n, path, "is a map of names to values")
	}
	m := reflect.New(f.typ)
	m.Elem().Set(reflect.MakeMap(f.typ))
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		item := reflect.Zero(f.typ.Elem())
		if v := l.value(f.elem, n.Content[i+1], joinPath(path, key)); v != nil {
			item = reflect.ValueOf(v)
		}
		m.Elem().SetMapIndex(reflect.ValueOf(key), item)
	}
	return m.Interface()
}

// read converts text to the field's type, whether it was quoted or not.
func (f *field) read(text string) (any, error) {
	switch f.typ {
	case secretType:
		return NewSecret(text), nil
	case durationType:
		d, err := duration(text)
		return d, cmp.Or(err, f.tooLow(int64(d)))
	case sizeType:
		var s Size
		err := s.UnmarshalText([]byte(text))
		return s, cmp.Or(err, f.tooLow(int64(s)))
	}
	switch f.typ.Kind() {
	case reflect.String:
		choices := f.words("choices")
		if choices == nil {
			return text, nil
		}
		if i := slices.IndexFunc(choices, func(c string) bool { return strings.EqualFold(c, text) }); i >= 0 {
			return choices[i], nil
		}
		return nil, fmt.Errorf("%q is not one of %s", text, strings.Join(choices, ", "))
	case reflect.Bool:
		return boolean(text)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return reflect.ValueOf(n).Convert(f.typ).Interface(), f.tooLow(n)
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || x != x {
			return nil, fmt.Errorf("%q is not a number", text)
		}
		return x, nil
	}
	return nil, fmt.Errorf("no setting can be of type %s", f.typ)
}

// tooLow refuses a number below the one in the tag min, 0 or 1.
func (f *field) tooLow(n int64) error {
	switch least := f.tag.Get("min"); {
	case least == "0" && n < 0:
		return errors.New("must not be negative")
	case least == "1" && n < 1:
		return errors.New("must be above 0")
	}
	return nil
}

func boolean(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "y":
		return true, nil
	case "false", "no", "off", "n":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

// duration refuses a number without unit: the registry this one stands in for
// takes it for nanoseconds, its operators for seconds.
func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, bare := strconv.ParseInt(text, 10, 64); bare == nil {
		return 0, fmt.Errorf("%s has no unit; write %[1]ss, %[1]sm or %[1]sh", text)
	}
	return 0, NotDuration(text)
}

// NotDuration is the error for text that is not a duration.
func NotDuration(text string) error {
	return fmt.Errorf("%q is not a duration such as 10s, 5m or 168h", text)
}

// FormatDuration writes a duration without the zeros that Duration.String puts at the end: 24h.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// maxSecret bounds what is read from a secret's file.
const maxSecret = 64 << 10

// readSecret reads the file that a key with _file names, unless the section in holds the
// secret itself.
func (l *loader) readSecret(in, file *yaml.Node, path string) Secret {
	if file.Kind != yaml.ScalarNode {
		l.wrong(file, path, "is one value, not a list or a section")
	}
	if isNull(file) || file.Value == "" {
		return Secret{}
	}
	secret := strings.TrimSuffix(path, "_file")
	if other := kid(in, secret[strings.LastIndexByte(secret, '.')+1:]); !isNull(other) {
		where := ""
		if other.HeadComment != file.HeadComment {
			where = " (" + other.HeadComment + ")"
		}
		l.problems.add(path, file.HeadComment, "is given beside %s%s; keep one", secret, where)
		return Secret{}
	}
	text, err := secretFrom(file.Value)
	if err != nil {
		l.problems.add(path, file.HeadComment, "%v", err)
	}
	l.report.origins[secret] = file.Value
	return NewSecret(text)
}

func secretFrom(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() && info.Mode()&os.ModeNamedPipe == 0 || info.Size() > maxSecret) {
		return "", fmt.Errorf("%s is not a file of at most %d bytes", path, maxSecret)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", fileerror.Explain(path, err))
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", errors.New(path + " is empty")
	}
	return secret, nil
}
