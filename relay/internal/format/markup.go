package format

import (
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s as one readable line of at most longest bytes and an ellipsis: without control characters and
// characters that hide or reorder others. Joiners stay, which Persian, Hindi and emoji need. An empty line is "?".
func Line(s string, longest int) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r) && r != '\u200c' && r != '\u200d':
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
	if s = Cut(s, longest); s == "" {
		return "?"
	}
	return s
}

// Cut returns s, or its first longest bytes and an ellipsis. It never splits a character.
func Cut(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	cut := longest
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.TrimSpace(s[:cut]) + "…"
}

// Escape escapes a text. Line breaks and spaces stay as they are.
func Escape(s string) string { return html.EscapeString(s) }

// Text escapes a text of several lines, with line breaks as <br>.
func Text(s string) string {
	return strings.ReplaceAll(html.EscapeString(strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n"))), "\n", "<br>")
}

// Bold returns a line in bold.
func Bold(s string) string { return "<strong>" + html.EscapeString(s) + "</strong>" }

// Code returns a line as code.
func Code(s string) string { return "<code>" + html.EscapeString(s) + "</code>" }

// Link returns a link with the label, or the label alone if target is no web address. An empty label is the address.
func Link(label, target string) string {
	if strings.TrimSpace(label) == "" {
		label = target
	}
	if !IsWeb(target) {
		return html.EscapeString(label)
	}
	return `<a href="` + html.EscapeString(target) + `">` + html.EscapeString(label) + "</a>"
}

// IsWeb reports whether s is an absolute http or https URL.
func IsWeb(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// Lines joins lines of HTML. Empty ones are left out.
func Lines(lines ...string) string { return join(lines, "<br>") }

// Paragraphs joins parts of HTML into paragraphs. Empty ones are left out.
func Paragraphs(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		if p != "" {
			b.WriteString("<p>" + p + "</p>")
		}
	}
	return b.String()
}

// Inline joins pieces of HTML with a separator. Empty ones are left out.
func Inline(separator string, pieces ...string) string { return join(pieces, separator) }

func join(pieces []string, separator string) string {
	var kept []string
	for _, p := range pieces {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, separator)
}

// Size writes a size as people read it.
func Size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), 0
	for v >= 999.5 && unit < 5 {
		v /= 1000
		unit++
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f %cB", v, " kMGTP"[unit])
	}
	return fmt.Sprintf("%.0f %cB", v, " kMGTP"[unit])
}
