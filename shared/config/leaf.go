package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"slipway/shared/duration"
)

// leaf returns the value of a setting that holds no others.
func (l *loader) leaf(f *field, n *yaml.Node, path string) any {
	if f.typ.Kind() == reflect.Interface {
		var value any
		_ = n.Decode(&value) // parse has done so before
		return value
	}
	if n.Kind != yaml.ScalarNode {
		return l.wrong(n, path, "is one value, not a list or a section")
	}
	text := n.Value
	if l.Expand && n.Line > 0 { // not in a variable
		text = l.expand(n, path)
	}
	value, err := f.read(text)
	if err != nil {
		return l.wrong(n, path, "%v", err)
	}
	return value
}

// read converts text to the field's type, whether it was quoted or not; nil stands for the default.
func (f *field) read(text string) (any, error) {
	switch {
	case f.typ == secretType:
		return NewSecret(text), nil
	case f.typ == durationType:
		d, err := duration.Parse(text)
		if err != nil {
			return nil, err
		}
		return d, f.tooLow(int64(d))
	case f.typ == sizeType:
		var s Size
		err := s.UnmarshalText([]byte(text))
		return s, cmp.Or(err, f.tooLow(int64(s)))
	case f.typ.Kind() == reflect.String:
		return f.choose(text)
	case f.typ.Kind() == reflect.Bool:
		var b bool
		if err := (&yaml.Node{Kind: yaml.ScalarNode, Value: text}).Decode(&b); err != nil || text == "" {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return b, nil
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a whole number", text)
	}
	return reflect.ValueOf(n).Convert(f.typ).Interface(), f.tooLow(n)
}

// choose returns the choice that text means, and text where there are no choices.
func (f *field) choose(text string) (any, error) {
	choices := words(f.tag, "choices")
	i := slices.IndexFunc(choices, func(c string) bool { return strings.EqualFold(c, text) })
	switch {
	case choices == nil:
		return text, nil
	case text == "":
		return nil, nil
	case i >= 0:
		return choices[i], nil
	}
	return nil, fmt.Errorf("%q is not one of %s", text, strings.Join(choices, ", "))
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

// reference is $$, ${VAR}, ${VAR:-text}, or a ${ that is none of them.
var reference = regexp.MustCompile(`\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}|\$\{`)

// expand replaces references to variables in a value, and $$ by a dollar sign.
func (l *loader) expand(n *yaml.Node, path string) string {
	return reference.ReplaceAllStringFunc(n.Value, func(match string) string {
		m := reference.FindStringSubmatch(match)
		i := slices.IndexFunc(l.Environ, func(e string) bool { return strings.HasPrefix(e, m[1]+"=") && len(e) > len(m[1])+1 })
		switch {
		case match == "$$":
			return "$"
		case m[1] == "":
			l.wrong(n, path, "${ does not name a variable such as ${NAME}; write $$ for a dollar sign")
		case i >= 0:
			return l.Environ[i][len(m[1])+1:]
		case m[2] != "":
			return m[3]
		default:
			l.wrong(n, path, "the variable %s is not set; ${%[1]s:-text} gives it a default", m[1])
		}
		return match
	})
}
