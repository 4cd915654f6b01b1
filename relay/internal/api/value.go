package api

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"slipway/relay/internal/refusal"
)

// value is what a field holds: JSON, or the text of a form's field.
type value struct {
	raw  []byte
	form bool
}

func formValue(text string) value { return value{raw: []byte(text), form: true} }

func (v value) null() bool { return !v.form && string(v.raw) == "null" }

func invalid(field, format string, args ...any) error {
	return &refusal.Error{Kind: refusal.KindInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// text reads a string; null counts as absent.
func (v value) text(field string) (*string, error) {
	switch {
	case v.null():
		return nil, nil //nolint:nilnil // absent and no error
	case v.form:
		s := string(v.raw)
		return &s, nil
	case v.raw[0] != '"':
		return nil, invalid(field, "Field '%s' must be a string.", field)
	}
	s, err := unquote(v.raw)
	if err != nil {
		return nil, invalid(field, "Field '%s' is not a valid string.", field)
	}
	return &s, nil
}

// integer reads a whole number; null and an empty field of a form count as
// absent. 5.0 and 5e0 are whole numbers, "5" in JSON is a text.
func (v value) integer(field string) (*int, error) {
	raw := strings.TrimSpace(string(v.raw))
	if v.null() || v.form && raw == "" {
		return nil, nil //nolint:nilnil // absent and no error
	}
	if n, err := strconv.Atoi(raw); err == nil {
		return &n, nil
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<31 || strings.ContainsAny(raw, "xXpP_iInN") {
		return nil, invalid(field, "Field '%s' must be a whole number.", field)
	}
	n := int(f)
	return &n, nil
}

// id reads a number that names something.
func (v value) id(field string) (*int64, error) {
	n, err := v.integer(field)
	if n == nil || err != nil {
		return nil, err
	}
	id := int64(*n)
	return &id, nil
}

// boolean reads true or false; in a form also what a checkbox sends.
func (v value) boolean(field string) (*bool, error) {
	yes, no := true, false
	raw := string(v.raw)
	switch {
	case v.null(), v.form && raw == "":
		return nil, nil //nolint:nilnil // absent and no error
	case raw == "true", v.form && (raw == "1" || raw == "on" || raw == "yes"):
		return &yes, nil
	case raw == "false", v.form && (raw == "0" || raw == "off" || raw == "no"):
		return &no, nil
	}
	return nil, invalid(field, "Field '%s' must be true or false.", field)
}

// object reads the JSON of an object, for keeping it; null counts as absent.
func (v value) object(field string) ([]byte, error) {
	switch {
	case v.null(), v.form && len(v.raw) == 0:
		return nil, nil
	case v.form, v.raw[0] != '{':
		return nil, invalid(field, "Field '%s' must be an object.", field)
	}
	return bytes.Clone(v.raw), nil
}
