package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"slipway/relay/internal/refusal"
)

// Value is the content of a field: JSON, or the text of a form's field.
type Value struct {
	raw  []byte
	form bool
	file bool // a file of a multipart form
}

func invalid(field, format string, args ...any) error {
	return &refusal.Error{Kind: refusal.KindInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

func (v Value) null() bool { return !v.form && string(v.raw) == "null" }

// File returns the content of a file. ok is false for any other field.
func (v Value) File() (content []byte, ok bool) { return v.raw, v.file }

// IsJSON reports whether the value is JSON, and not the text of a form's field.
func (v Value) IsJSON() bool { return !v.form }

// Raw returns the value's bytes.
func (v Value) Raw() []byte { return v.raw }

// Text returns a string; nil for null.
func (v Value) Text(field string) (*string, error) {
	if v.null() {
		return nil, nil //nolint:nilnil // absent and no error
	}
	s := string(v.raw)
	if v.file || !v.form && json.Unmarshal(v.raw, &s) != nil {
		return nil, invalid(field, "Field '%s' must be a string.", field)
	}
	return &s, nil
}

// Words returns a value as text: that of a string, and of other JSON what a person would have written, such as "key: value" for an
// object. nil for null.
func (v Value) Words(field string) (*string, error) {
	text, err := v.Text(field)
	if err == nil || v.file || v.form {
		return text, err
	}
	words := strings.TrimSpace(wordsOf(v.raw, 0))
	return &words, nil
}

const maxWordsDepth = 4

// wordsOf returns JSON as YAML would have it.
func wordsOf(raw []byte, depth int) string {
	var list []json.RawMessage
	var text string
	switch d := json.NewDecoder(bytes.NewReader(raw)); {
	case json.Unmarshal(raw, &text) == nil:
		return text
	case depth == maxWordsDepth:
	case json.Unmarshal(raw, &list) == nil:
		lines := make([]string, len(list))
		for i, one := range list {
			lines[i] = "- " + indent(wordsOf(one, depth+1))
		}
		return strings.Join(lines, "\n")
	default:
		var lines []string
		if start, err := d.Token(); err != nil || start != json.Delim('{') {
			break
		}
		for d.More() { // in the order of the sender
			name, err := d.Token()
			var one json.RawMessage
			if err != nil || d.Decode(&one) != nil {
				break
			}
			separator := ": "
			if len(one) > 0 && (one[0] == '{' || one[0] == '[') {
				separator = ":\n  "
			}
			lines = append(lines, fmt.Sprint(name)+separator+indent(wordsOf(one, depth+1)))
		}
		return strings.Join(lines, "\n")
	}
	return string(Unescape(raw))
}

func indent(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }

// Integer returns a whole number; nil for null and for an empty text. A number in quotes counts, because senders
// of Gotify write one.
func (v Value) Integer(field string) (*int, error) {
	raw := strings.TrimSpace(string(v.raw))
	if !v.form && strings.HasPrefix(raw, `"`) {
		raw = strings.TrimSpace(strings.Trim(raw, `"`))
	}
	if v.null() || raw == "" {
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

// ID returns a number that identifies something; nil for null and for an empty text.
func (v Value) ID(field string) (*int64, error) {
	n, err := v.Integer(field)
	if n == nil || err != nil {
		return nil, err
	}
	id := int64(*n)
	return &id, nil
}

// Boolean returns true or false, in a form in any spelling of [IsTrue]; nil for null and for an empty text.
func (v Value) Boolean(field string) (*bool, error) {
	yes, no := true, false
	raw := string(v.raw)
	switch {
	case v.null(), v.form && strings.TrimSpace(raw) == "":
		return nil, nil //nolint:nilnil // absent and no error
	case raw == "true", v.form && IsTrue(raw):
		return &yes, nil
	case raw == "false", v.form && isOneOf(raw, "false", "f", "0", "no", "n", "off"):
		return &no, nil
	}
	return nil, invalid(field, "Field '%s' must be true or false.", field)
}

// IsTrue reports whether a text is a spelling of true: Python writes True, forms write on.
func IsTrue(text string) bool { return isOneOf(text, "true", "t", "1", "yes", "y", "on") }

func isOneOf(text string, words ...string) bool {
	return slices.Contains(words, strings.ToLower(strings.TrimSpace(text)))
}

// Object returns a copy of the JSON of an object; nil for null and for an empty text.
func (v Value) Object(field string) (json.RawMessage, error) {
	switch {
	case v.null(), v.form && len(v.raw) == 0:
		return nil, nil
	case v.form, v.raw[0] != '{':
		return nil, invalid(field, "Field '%s' must be an object.", field)
	}
	return bytes.Clone(v.raw), nil
}

// Unescape returns JSON with characters in place of unnecessary escapes, so that a text search finds them. The result isn't longer than
// the input.
func Unescape(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		n := 1
		if raw[0] == '\\' {
			r, long := escaped(raw)
			if long > 0 {
				out, raw = utf8.AppendRune(out, r), raw[long:]
				continue
			}
			n = min(2, len(raw))
		}
		out, raw = append(out, raw[:n]...), raw[n:]
	}
	return out
}

// escaped returns the character of an unnecessary escape and the escape's length; the length is 0 for anything else.
func escaped(raw []byte) (r rune, n int) {
	r, n = unit(raw), 6
	if utf16.IsSurrogate(r) {
		r, n = utf16.DecodeRune(r, unit(raw[n:])), 12
	}
	if r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError {
		return 0, 0
	}
	return r, n
}

// unit returns the UTF-16 code unit of an escape, −1 if there is none.
func unit(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
