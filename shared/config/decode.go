package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// delimiter separates the parts of a key inside viper. It is no character of a
// key, so that a dot in the name of a map's entry is only a dot.
const delimiter = "\x1f"

// decode hands the tree to viper, which fills the target. viper sees sections
// as maps and everything else as opaque nodes: so it cannot change the case of
// a map's keys, drop a section without content or guess a type.
func (l *loader) decode(target any) {
	v := viper.NewWithOptions(viper.KeyDelimiter(delimiter))
	if err := v.MergeConfigMap(l.root.settings()); err != nil {
		l.addDecodeError(err)
		return
	}
	found := len(l.problems.list)
	err := v.UnmarshalExact(target, viper.DecodeHook(mapstructure.DecodeHookFuncValue(fromNode)),
		func(c *mapstructure.DecoderConfig) { c.TagName, c.WeaklyTypedInput = "key", false })
	l.addDecodeError(err)
	slices.SortFunc(l.problems.list[found:], func(a, b *Problem) int { // decoding follows no order
		return cmp.Or(cmp.Compare(a.Origin.Line, b.Origin.Line), cmp.Compare(a.Key, b.Key))
	})
}

func (n *node) settings() map[string]any {
	m := make(map[string]any, len(n.keys))
	for key, kid := range n.kids {
		if kid.field.kind == section && len(kid.kids) > 0 {
			m[key] = kid.settings()
		} else {
			m[key] = kid
		}
	}
	return m
}

// addDecodeError takes the problems out of the tree of errors that decoding
// returns.
func (l *loader) addDecodeError(err error) {
	if err == nil {
		return
	}
	if p, ok := err.(*Problem); ok { //nolint:errorlint // errors.As would take the first of several
		l.problems.list = append(l.problems.list, p)
	} else if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			l.addDecodeError(one)
		}
	} else if wrapped := errors.Unwrap(err); wrapped != nil {
		l.addDecodeError(wrapped)
	} else {
		l.problems.Addf("", "%v", err)
	}
}

// fromNode is the decode hook: it gives the decoder what a node means for the
// type wanted.
func fromNode(from, to reflect.Value) (any, error) {
	n, ok := from.Interface().(*node)
	if !ok || to.Kind() == reflect.Pointer {
		return from.Interface(), nil
	}
	v, err := n.as(to.Type())
	if err != nil {
		return nil, &Problem{Key: n.path, Origin: n.origin, Text: err.Error()}
	}
	return v, nil
}

// as converts the node one level deep.
func (n *node) as(t reflect.Type) (any, error) {
	switch {
	case n.field.free():
		return n.value()
	case n.shape == mapping:
		return n.entries(), nil
	case n.shape == sequence:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = item
		}
		return items, nil
	case n.shape == scalar:
		return n.scalarAs(t)
	case n.field.kind == section:
		return map[string]any{}, nil
	}
	return nil, nil
}

func (n *node) entries() map[string]any {
	m := make(map[string]any, len(n.kids))
	for key, kid := range n.kids {
		m[key] = kid
	}
	return m
}

// scalarAs reads the text as the type wanted, whether it is quoted or not.
func (n *node) scalarAs(t reflect.Type) (any, error) {
	switch {
	case t == secretType:
		return NewSecret(n.text), nil
	case t == durationType:
		return duration(n.text)
	case reflect.PointerTo(t).Implements(textType):
		return textValue(n.text, t)
	}
	switch t.Kind() {
	case reflect.String:
		return n.choice(n.text)
	case reflect.Bool:
		return boolean(n.text)
	case reflect.Int, reflect.Int64:
		return integer(n.text)
	case reflect.Float64:
		return float(n.text)
	}
	return nil, fmt.Errorf("no setting can be of type %s", t)
}

// choice checks text against the closed set of values, when there is one.
func (n *node) choice(text string) (string, error) {
	choices := n.field.words("choices")
	if choices == nil {
		return text, nil
	}
	if c, ok := choose(text, choices); ok {
		return c, nil
	}
	return "", fmt.Errorf("%q is not one of %s", text, strings.Join(choices, ", "))
}

func textValue(text string, t reflect.Type) (any, error) {
	v := reflect.New(t)
	if err := v.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
		return nil, err
	}
	return v.Elem().Interface(), nil
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

func boolean(text string) (bool, error) {
	if _, yes := choose(text, []string{"true", "yes", "on", "y"}); yes {
		return true, nil
	}
	if _, no := choose(text, []string{"false", "no", "off", "n"}); no {
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

func integer(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return n, nil
}

func float(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != f {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return f, nil
}
