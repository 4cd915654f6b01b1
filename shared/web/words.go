package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"slipway/shared/plural"
)

// words are the functions of all templates.
var words = template.FuncMap{
	"ago":       func(t time.Time) string { return Ago(time.Now(), t) },
	"future":    func(t time.Time) bool { return t.After(time.Now()) },
	"until":     func(t time.Time) string { return remaining(time.Until(t)) },
	"span":      Span,
	"remaining": remaining,
	"stamp":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"iso":       func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"count":     Count,
	"size":      Size,
	"join":      strings.Join,
	"plural":    func(n int, noun string) string { return plural.Of(n, noun) },
	"initial":   initial,
	"excerpt":   Excerpt,
	"sentence":  Sentence,
	"dict":      dict,
}

// Ago describes how long ago t was.
func Ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	if d < 5*time.Second {
		return "just now"
	}
	return Span(d) + " ago"
}

// Span formats a duration in its largest unit.
func Span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours())/24) + " days"
}

// remaining formats a rounded time to wait: 23:59:59 is a day.
func remaining(d time.Duration) string {
	if d = d.Round(time.Second); d > time.Minute {
		d = d.Round(time.Minute)
	}
	return Span(d)
}

// Count formats a number with thin spaces between thousands.
func Count(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// initial returns a name's first letter.
func initial(name string) string {
	_, size := utf8.DecodeRuneInString(name)
	return name[:size]
}

// Excerpt returns the beginning of a text on one line.
func Excerpt(n int, text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text[:min(len(text), 8*n)], "")), " ")
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return strings.TrimRight(string(runes[:n]), " ") + "…"
}

// Sentence adds a capital letter and a full stop.
func Sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}

// dict passes several values to a template.
func dict(pairs ...any) (map[string]any, error) {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("%v is not a name", pairs[i])
		}
		m[key] = pairs[i+1]
	}
	return m, nil
}

// Size formats a number of bytes in the largest unit of 1000 that leaves a digit before the point.
func Size(n int64) string {
	if n < 1000 && n > -1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, unit := float64(n), ""
	for _, unit = range []string{"kB", "MB", "GB", "TB", "PB"} {
		if value /= 1000; value < 999.95 && value > -999.95 {
			break
		}
	}
	digits := 1
	if value >= 99.95 || value <= -99.95 {
		digits = 0
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + " " + unit
}
