package format

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxDepth bounds nested tags; Matrix allows clients to stop at 100.
const maxDepth = 100

// sanitizer writes balanced, allowed HTML and its plain text while it reads tokens. It builds no tree, so time and memory are
// proportional to the source.
type sanitizer struct {
	z       *html.Tokenizer
	media   string // the server whose images are kept; "" for none
	literal bool   // unknown tags are text, such as <nil> in Markdown
	out     []byte
	text    textWriter
	open    []element
	token   []byte    // the tag as written
	attrs   []byte    // its allowed attributes
	over    int       // open tags beyond maxDepth, which are not written
	skip    atom.Atom // the dropped element that is open
	nested  int       // of the same name inside it
	markup  bool
}

type element struct {
	tag  atom.Atom
	href string // of an <a>
}

// sanitize returns the allowed part of the source. If literal is set, unknown tags are shown as text instead of being dropped. Images
// of the server media are kept.
func sanitize(source []byte, literal bool, limit int, media string) rendered {
	s := &sanitizer{
		z: html.NewTokenizer(bytes.NewReader(source)), literal: literal, media: media,
		out: make([]byte, 0, len(source)+64), text: textWriter{limit: limit},
	}
	return s.run()
}

func (s *sanitizer) run() rendered {
	for s.next() {
	}
	for len(s.open) > 0 {
		s.pop()
	}
	return rendered{
		html: strings.TrimSpace(string(s.out)), text: s.text.String(),
		markup: s.markup, cut: s.text.full,
	}
}

func (s *sanitizer) next() bool {
	switch s.z.Next() {
	case html.ErrorToken:
		return false
	case html.TextToken:
		if s.skip == 0 {
			s.write(string(s.z.Text()))
		}
	case html.StartTagToken, html.SelfClosingTagToken:
		s.start()
	case html.EndTagToken:
		s.end()
	}
	return true
}

func (s *sanitizer) write(text string) {
	s.out = appendEscaped(s.out, text)
	s.text.write(text)
}

// tag returns the current tag, 0 if unknown, and whether attributes follow. It saves the tag first, because reading the name
// changes the tokenizer's copy.
func (s *sanitizer) tag() (tag atom.Atom, more bool) {
	s.token = append(s.token[:0], s.z.Raw()...)
	name, more := s.z.TagName()
	tag = atom.Lookup(name)
	if to, ok := renamed[tag]; ok {
		tag = to
	}
	return tag, more
}

func (s *sanitizer) start() {
	tag, more := s.tag()
	switch {
	case s.skip != 0:
		if tag == s.skip {
			s.nested++
		}
	case tag == atom.Img:
		s.image(more)
	case allowed[tag]:
		s.push(tag, more)
	case s.literal && !unwrapped[tag]:
		s.z.NextIsNotRawText()
		s.write(string(s.token))
	case dropped[tag]:
		s.skip, s.nested = tag, 0
	}
}

func (s *sanitizer) end() {
	tag, _ := s.tag()
	switch {
	case s.skip != 0:
		s.endSkipped(tag)
	case allowed[tag]:
		s.close(tag)
	case s.literal && !unwrapped[tag] && tag != atom.Img:
		s.write(string(s.token))
	}
}

func (s *sanitizer) endSkipped(tag atom.Atom) {
	switch {
	case tag != s.skip:
	case s.nested > 0:
		s.nested--
	default:
		s.skip = 0
	}
}

// push opens an allowed tag after closing tags that cannot contain it.
func (s *sanitizer) push(tag atom.Atom, attributes bool) {
	s.closeImplied(tag)
	void := tag == atom.Br || tag == atom.Hr
	if len(s.open) >= maxDepth {
		if !void {
			s.over++
		}
		return
	}
	e := element{tag: tag}
	value := s.attributes(tag, attributes)
	if tag == atom.A {
		if value == "" {
			return // no link: only its text stays
		}
		e.href = value
	}
	s.markup = s.markup || tag != atom.P && tag != atom.Br
	s.out = append(append(s.out, '<'), tag.String()...)
	s.out = append(append(s.out, s.attrs...), '>')
	s.text.openTag(tag)
	if tag == atom.Ol {
		s.text.countFrom(value)
	}
	if !void {
		s.open = append(s.open, e)
	}
}

// attributes writes the allowed attributes and returns the last value: the link of an <a>, the first number of an <ol>.
func (s *sanitizer) attributes(tag atom.Atom, more bool) (last string) {
	s.attrs = s.attrs[:0]
	var seen []string
	for more {
		var name, value []byte
		name, value, more = s.z.TagAttr()
		as, keep, ok := attribute(tag, string(name), string(value))
		if !ok || slices.Contains(seen, as) {
			continue
		}
		seen = append(seen, as)
		s.attrs = append(append(append(s.attrs, ' '), as...), `="`...)
		s.attrs = append(appendEscaped(s.attrs, keep), '"')
		last = keep
	}
	return last
}

// closeImplied closes elements with optional end tags.
func (s *sanitizer) closeImplied(tag atom.Atom) {
	switch tag {
	case atom.A:
		s.closeWithin(atom.Table, atom.A)
	case atom.Li:
		s.closeWithin(atom.Ul, atom.Li)
	case atom.Td, atom.Th:
		s.closeWithin(atom.Tr, atom.Td, atom.Th)
	case atom.Tr:
		s.closeWithin(atom.Table, atom.Tr)
	case atom.Thead, atom.Tbody:
		s.closeWithin(atom.Table, atom.Thead, atom.Tbody)
	}
	if blocks[tag] {
		s.closeWithin(atom.Td, atom.P)
	}
}

// closeWithin closes the innermost of the tags inside the boundary.
func (s *sanitizer) closeWithin(boundary atom.Atom, tags ...atom.Atom) {
	for i := len(s.open) - 1; i >= 0; i-- {
		tag := s.open[i].tag
		if slices.Contains(tags, tag) {
			s.popTo(i)
			return
		}
		if tag == boundary || tag == atom.Table || tag == atom.Ol && boundary == atom.Ul || tag == atom.Th && boundary == atom.Td {
			return
		}
	}
}

// close closes the innermost element of the tag with its content. It ignores unmatched end tags, and inline ones that would
// close a table cell or list item.
func (s *sanitizer) close(tag atom.Atom) {
	if s.over > 0 {
		s.over--
		return
	}
	for i := len(s.open) - 1; i >= 0; i-- {
		at := s.open[i].tag
		if at == tag {
			s.popTo(i)
			return
		}
		if cells[at] && !tableTags[tag] || blocks[at] && !blocks[tag] && !cells[tag] {
			return
		}
	}
}

func (s *sanitizer) popTo(i int) {
	for len(s.open) > i {
		s.pop()
	}
}

func (s *sanitizer) pop() {
	e := s.open[len(s.open)-1]
	s.open = s.open[:len(s.open)-1]
	if e.href != "" {
		s.text.link(e.href)
	}
	s.text.closeTag(e.tag)
	s.out = append(append(append(s.out, "</"...), e.tag.String()...), '>')
}

// image keeps images of the bot's homeserver. Those of another server would make each reader's homeserver fetch from where the sender
// chose, so only their text stays. Clients load no others, for privacy; those become links.
func (s *sanitizer) image(attributes bool) {
	var alt, title, src string
	for attributes {
		var name, value []byte
		name, value, attributes = s.z.TagAttr()
		switch string(name) {
		case "alt":
			alt = string(value)
		case "title":
			title = string(value)
		case "src":
			src = string(value)
		}
	}
	if alt == "" {
		alt = title
	}
	s.markup = true
	if rest, ok := strings.CutPrefix(src, "mxc://"+s.media+"/"); ok && s.media != "" && isMediaID(rest) {
		s.out = append(appendEscaped(append(s.out, `<img src="`...), src), `" alt="`...)
		s.out = append(appendEscaped(s.out, alt), `">`...)
		s.text.write(alt)
		return
	}
	href, ok := safeLink(src)
	if alt == "" {
		alt = href
	}
	inLink := slices.ContainsFunc(s.open, func(e element) bool { return e.tag == atom.A })
	if !ok || inLink || len(s.open) >= maxDepth {
		s.write(alt)
		return
	}
	s.text.openTag(atom.A)
	s.out = append(appendEscaped(append(s.out, `<a href="`...), href), `">`...)
	s.write(alt)
	s.out = append(s.out, "</a>"...)
	s.text.link(href)
}

// isMediaID reports whether s is the opaque part of an mxc: address.
func isMediaID(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// appendEscaped appends text escaped for HTML and quoted attributes.
func appendEscaped(b []byte, s string) []byte {
	from := 0
	for i := range len(s) {
		var entity string
		switch s[i] {
		case '&':
			entity = "&amp;"
		case '<':
			entity = "&lt;"
		case '>':
			entity = "&gt;"
		case '"':
			entity = "&quot;"
		default:
			continue
		}
		b = append(append(b, s[from:i]...), entity...)
		from = i + 1
	}
	return append(b, s[from:]...)
}
