package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"slipway/relay/internal/format"
)

// Markup is what values are escaped for.
type Markup int

// The kinds of markup.
const (
	Plain Markup = iota
	Markdown
	HTML
)

// available are the functions that a template may use; those that are not in [budget.functions] are text/template's.
var available = map[string]bool{
	"and": true, "or": true, "not": true, "eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true, "len": true, "index": true, "slice": true,
	"print": true, "default": true, "upper": true, "lower": true, "trunc": true, "join": true, "date": true, "json": true, "contains": true, "raw": true,
}

// functions returns the functions of a template. Each charges for its arguments before it works on them.
func (b *budget) functions(m Markup) template.FuncMap {
	return template.FuncMap{
		"_round":  b.round,
		"_items":  b.items,
		"_escape": b.escaper(m),
		"_text":   b.text,
		"raw":     b.text,
		"print": func(all ...any) (string, error) {
			var out strings.Builder
			for _, v := range all {
				text, err := b.text(v)
				if err != nil {
					return "", err
				}
				out.WriteString(text)
			}
			return b.result(out.String())
		},
		"default": func(other, v any) any {
			if v == nil || v == "" {
				return other
			}
			return v
		},
		"upper": b.changed(strings.ToUpper),
		"lower": b.changed(strings.ToLower),
		"trunc": func(n int, v any) (string, error) {
			return b.changed(func(text string) string { return truncate(text, n) })(v)
		},
		"contains": func(part, v any) (bool, error) {
			text, err := b.text(v)
			if err != nil {
				return false, err
			}
			within, err := b.text(part)
			return err == nil && strings.Contains(text, within), err
		},
		"join": b.join,
		"date": b.date,
		"json": func(v any) (string, error) {
			if err := b.charge(v); err != nil {
				return "", err
			}
			text, err := json.Marshal(v)
			if err != nil {
				return "", err
			}
			return b.result(string(text))
		},
	}
}

func (b *budget) escaper(m Markup) func(any) (string, error) {
	return b.changed(func(text string) string { return escape(text, m) })
}

// changed returns the function of a template that changes a text by f.
func (b *budget) changed(f func(string) string) func(any) (string, error) {
	return func(v any) (string, error) {
		text, err := b.text(v)
		if err != nil {
			return "", err
		}
		return b.result(f(text))
	}
}

func (b *budget) join(separator string, list any) (string, error) {
	all, ok := list.([]any)
	if !ok {
		return b.text(list)
	}
	var out strings.Builder
	for i, v := range all {
		text, err := b.text(v)
		if err == nil && i > 0 {
			err = b.spend(len(separator))
			out.WriteString(separator)
		}
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	return b.result(out.String())
}

// date writes a time of RFC 3339, or in Unix seconds, in a layout of Go's.
func (b *budget) date(layout string, v any) (string, error) {
	const longest = 100
	if len(layout) > longest {
		return "", errors.New("the layout of a date is too long")
	}
	text, err := b.text(v)
	if err != nil {
		return "", err
	}
	text = text[:min(len(text), longest)] // no time is so long
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e11 {
		return b.result(time.Unix(int64(n), 0).UTC().Format(layout))
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", fmt.Errorf("%q is not a time", format.Line(text, 40))
	}
	return b.result(t.Format(layout))
}

// truncate returns at most n characters.
func truncate(text string, n int) string {
	if n < 0 || utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n]) + "…"
}

// textOf is a value as people read it.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case map[string]any, []any:
		text, _ := json.Marshal(v) // it was JSON
		return string(text)
	}
	return fmt.Sprint(v)
}

func escape(text string, m Markup) string {
	switch m {
	case HTML:
		return html.EscapeString(text)
	case Markdown:
		return escapeMarkdown(text)
	}
	return text
}

// escapeMarkdown keeps a text from being markup. A web address stays as it is, so that it becomes a link.
func escapeMarkdown(text string) string {
	if format.IsWeb(text) && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/.?&=%#_~+,@-") == "" && !strings.ContainsAny(text, " \n<>()[]*`\\;\"'|{}!^$") {
		return text
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		var out strings.Builder
		for _, r := range strings.TrimSpace(line) {
			if r < utf8.RuneSelf && strings.ContainsRune("\\`*_{}[]<>()#+-.!|~&=:@^$\"", r) {
				out.WriteByte('\\')
			}
			out.WriteRune(r)
		}
		lines[i] = out.String()
	}
	return strings.Join(lines, "  \n")
}
