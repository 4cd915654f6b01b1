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

	"slipway/relay/internal/markup"
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

// budget bounds one execution.
type budget struct {
	markup        Markup
	rounds, bytes int
}

func (b *budget) functions() template.FuncMap {
	return template.FuncMap{
		"_round": func() (string, error) {
			if b.rounds++; b.rounds > maxRounds {
				return "", errRounds
			}
			return "", nil
		},
		"_escape": func(v any) (string, error) { return b.spend(escape(textOf(v), b.markup)) },
		"_text":   func(v any) (string, error) { return b.spend(textOf(v)) },
		"raw":     func(v any) (string, error) { return b.spend(textOf(v)) },
		"print": func(all ...any) (string, error) {
			var text strings.Builder
			for _, v := range all {
				text.WriteString(textOf(v))
			}
			return b.spend(text.String())
		},
		"default": func(other, v any) any {
			if v == nil || v == "" {
				return other
			}
			return v
		},
		"upper":    func(v any) (string, error) { return b.spend(strings.ToUpper(textOf(v))) },
		"lower":    func(v any) (string, error) { return b.spend(strings.ToLower(textOf(v))) },
		"trunc":    func(n int, v any) (string, error) { return b.spend(truncate(textOf(v), n)) },
		"contains": func(part, v any) bool { return strings.Contains(textOf(v), textOf(part)) },
		"join":     b.join,
		"date":     date,
		"json": func(v any) (string, error) {
			text, err := json.Marshal(v)
			if err != nil {
				return "", err
			}
			return b.spend(string(text))
		},
	}
}

// spend returns a result, unless there were too many of them.
func (b *budget) spend(text string) (string, error) {
	if b.bytes += len(text); b.bytes > maxBytes || len(text) > maxOutput {
		return "", errBytes
	}
	return text, nil
}

func (b *budget) join(separator string, list any) (string, error) {
	all, ok := list.([]any)
	if !ok {
		return b.spend(textOf(list))
	}
	var text strings.Builder
	for i, v := range all {
		if i > 0 {
			text.WriteString(separator)
		}
		if text.WriteString(textOf(v)); text.Len() > maxOutput {
			return "", errBytes
		}
	}
	return b.spend(text.String())
}

// date writes a time of RFC 3339, or in Unix seconds, in a layout of Go's.
func date(layout string, v any) (string, error) {
	if len(layout) > 100 {
		return "", errors.New("the layout of a date is too long")
	}
	text := textOf(v)
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e11 {
		return time.Unix(int64(n), 0).UTC().Format(layout), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", fmt.Errorf("%q is not a time", markup.Line(text, 40))
	}
	return t.Format(layout), nil
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
	if markup.IsWeb(text) && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/.?&=%#_~+,@-") == "" && !strings.ContainsAny(text, " \n<>()[]*`\\;\"'|{}!^$") {
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
