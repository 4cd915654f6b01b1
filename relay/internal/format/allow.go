package format

import (
	"strconv"
	"strings"

	"golang.org/x/net/html/atom"
)

// allowed are the tags that Matrix allows (client-server API, m.room.message msgtypes), except images; see sanitizer.image.
var allowed = set(
	atom.Del, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Blockquote, atom.P, atom.A,
	atom.Ul, atom.Ol, atom.Sup, atom.Sub, atom.Li, atom.B, atom.I, atom.U, atom.Strong, atom.Em, atom.S,
	atom.Code, atom.Hr, atom.Br, atom.Div, atom.Table, atom.Thead, atom.Tbody, atom.Tr, atom.Th, atom.Td,
	atom.Caption, atom.Pre, atom.Span, atom.Details, atom.Summary,
)

// unwrapped tags are HTML that Matrix does not allow; their content stays.
var unwrapped = set(
	atom.Html, atom.Head, atom.Body, atom.Main, atom.Header, atom.Footer, atom.Section, atom.Article,
	atom.Aside, atom.Nav, atom.Address, atom.Figure, atom.Figcaption, atom.Center, atom.Small, atom.Big,
	atom.Mark, atom.Kbd, atom.Samp, atom.Var, atom.Tt, atom.Ins, atom.Abbr, atom.Cite, atom.Q, atom.Dfn,
	atom.Time, atom.Label, atom.Tfoot, atom.Col, atom.Colgroup, atom.Dl, atom.Dt, atom.Dd, atom.Picture,
	atom.Source, atom.Wbr, atom.Nobr, atom.Meta, atom.Link, atom.Fieldset, atom.Legend, atom.Form, atom.Button,
	atom.Input,
)

// dropped tags go together with their content, which is not text.
var dropped = set(
	atom.Script, atom.Style, atom.Title, atom.Iframe, atom.Noembed, atom.Noframes, atom.Noscript,
	atom.Template, atom.Svg, atom.Math, atom.Object, atom.Applet, atom.Select, atom.Xmp, atom.Plaintext,
	atom.Textarea,
)

// renamed maps obsolete tags to allowed ones.
var renamed = map[atom.Atom]atom.Atom{atom.Font: atom.Span, atom.Strike: atom.S}

// blocks start a new line and end an open paragraph.
var blocks = set(
	atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Blockquote, atom.P, atom.Ul, atom.Ol,
	atom.Li, atom.Hr, atom.Div, atom.Table, atom.Thead, atom.Tbody, atom.Tr, atom.Caption, atom.Pre,
	atom.Details, atom.Summary,
)

// cells contain their content: only end tags of table parts close them.
var cells = set(atom.Td, atom.Th, atom.Caption)

var tableTags = set(atom.Table, atom.Thead, atom.Tbody, atom.Tr, atom.Td, atom.Th, atom.Caption)

func set(atoms ...atom.Atom) map[atom.Atom]bool {
	m := make(map[atom.Atom]bool, len(atoms))
	for _, a := range atoms {
		m[a] = true
	}
	return m
}

// attribute returns the name and value to keep of an attribute; ok is false if it must go.
func attribute(tag atom.Atom, name, value string) (as, keep string, ok bool) {
	switch tag {
	case atom.A:
		keep, ok = safeLink(value)
		return name, keep, ok && name == "href"
	case atom.Span:
		if name == "color" { // of <font>
			name = "data-mx-color"
		}
		if name == "data-mx-color" || name == "data-mx-bg-color" {
			return name, value, isColor(value)
		}
		return name, value, name == "data-mx-spoiler"
	case atom.Ol:
		_, err := strconv.ParseInt(value, 10, 32)
		return name, value, name == "start" && err == nil
	case atom.Code:
		return name, value, name == "class" && isLanguage(value)
	}
	return "", "", false
}

// unbroken removes the characters that browsers drop inside a URL.
var unbroken = strings.NewReplacer("\t", "", "\n", "", "\r", "")

// safeLink returns a link as browsers read it, if Matrix allows its scheme.
func safeLink(s string) (string, bool) {
	s = strings.TrimFunc(unbroken.Replace(s), func(r rune) bool { return r <= ' ' }) // as browsers do
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || rest == "" {
		return "", false
	}
	switch strings.ToLower(scheme) {
	case "http", "https", "ftp", "mailto", "magnet":
		return s, true
	}
	return "", false
}

func isColor(s string) bool {
	return len(s) == 7 && s[0] == '#' && strings.Trim(s[1:], "0123456789abcdefABCDEF") == ""
}

// isLanguage reports whether s is a class such as "language-go" that needs no escaping.
func isLanguage(s string) bool {
	name, ok := strings.CutPrefix(s, "language-")
	return ok && name != "" && len(name) <= 64 && !strings.ContainsAny(name, " \t\n\"'<>&`=")
}
