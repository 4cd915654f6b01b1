package format

import "strings"

// maxSimple is the longest source that renderSimple looks at. Nothing of it has to be cut, and no bound of [affordable] is near.
const maxSimple = 2 << 10

// notSimple may begin a link anywhere in a line, or its address anywhere in the source.
var notSimple = []string{"@", "://", "www.", "](", "]:"}

// simple renders paragraphs and flat lists of words, **strong** words and `code`, as most messages are, without a parser:
// the parser and the sanitizer are a tenth of what a message costs. It must give what they give, which TestRenderSimple holds.
type simple struct {
	html, text []byte
	open, last block
	markup     bool
}

// block is what a simple source consists of.
type block int

const (
	noBlock block = iota
	paragraph
	itemList
)

// renderSimple renders a Markdown source; ok is false if any part of it may mean more than a simple one can.
func renderSimple(source string) (r rendered, ok bool) {
	if len(source) > maxSimple {
		return r, false
	}
	for _, s := range notSimple {
		if strings.Contains(source, s) {
			return r, false
		}
	}
	s := simple{html: make([]byte, 0, len(source)+64), text: make([]byte, 0, len(source)+16)}
	for line := range strings.SplitSeq(source, "\n") {
		if !s.line(line) {
			return r, false
		}
	}
	s.end()
	return rendered{html: strings.TrimSuffix(string(s.html), "\n"), text: string(s.text), markup: s.markup}, len(s.text) > 0
}

func (s *simple) line(line string) bool {
	if line == "" {
		s.end()
		return true
	}
	text, item := strings.CutPrefix(line, "- ")
	if !beginsSimply(text) {
		return false
	}
	if item {
		return s.item(text)
	}
	switch s.open {
	case itemList:
		return false // it continues the item
	case paragraph:
		s.html, s.text = append(s.html, "<br>\n"...), append(s.text, '\n')
	case noBlock:
		s.begin(paragraph, "<p>")
	}
	return s.inline(text)
}

func (s *simple) item(text string) bool {
	if s.open == paragraph {
		s.end()
	}
	switch {
	case s.open == itemList:
		s.text = append(s.text, '\n')
	case s.last == itemList:
		return false // an empty line between items makes them paragraphs
	default:
		s.begin(itemList, "<ul>\n")
		s.markup = true
	}
	s.html, s.text = append(s.html, "<li>"...), append(s.text, "• "...)
	ok := s.inline(text)
	s.html = append(s.html, "</li>\n"...)
	return ok
}

func (s *simple) begin(b block, tag string) {
	s.open = b
	s.html = append(s.html, tag...)
	if len(s.text) > 0 {
		s.text = append(s.text, "\n\n"...)
	}
}

// end ends the block that is open.
func (s *simple) end() {
	switch s.open {
	case noBlock:
		return
	case paragraph:
		s.html = append(s.html, "</p>\n"...)
	case itemList:
		s.html = append(s.html, "</ul>\n"...)
	}
	s.open, s.last = noBlock, s.open
}

// beginsSimply reports whether a line begins nothing but text: no heading, quote, ruler, code or list.
func beginsSimply(line string) bool {
	digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
	switch c := at(line, digits); {
	case digits > 0:
		return c != '.' && c != ')' || at(line, digits+1) != ' '
	default:
		return isWord(c) || strings.IndexByte("([\"*`", c) >= 0
	}
}

// inline renders the text of a line.
func (s *simple) inline(text string) bool {
	strong, from := false, 0 // from is where the text begins that is not written yet
	for i := 0; i < len(text); i++ {
		var n int
		switch c := text[i]; {
		case isWord(c):
			continue
		case c == '*':
			if !turnsStrong(text, i, strong) {
				return false
			}
			n, strong = 2, !strong
			s.write(text[from:i])
			s.tag("strong", strong)
		case c == '`':
			if n = codeLen(text[i:]); n == 0 {
				return false
			}
			s.write(text[from:i])
			s.tag("code", true)
			s.write(text[i+1 : i+n-1])
			s.tag("code", false)
		case !isText(text, i):
			return false
		default:
			continue
		}
		i += n - 1
		from = i + 1
	}
	s.write(text[from:])
	return !strong
}

// tag writes the start tag of an element, or its end tag.
func (s *simple) tag(name string, start bool) {
	s.markup = true
	if s.html = append(s.html, '<'); !start {
		s.html = append(s.html, '/')
	}
	s.html = append(append(s.html, name...), '>')
}

func (s *simple) write(text string) {
	s.html, s.text = appendEscaped(s.html, text), append(s.text, text...)
}

// turnsStrong reports whether exactly two asterisks at i begin strong text, or end it if it has begun.
func turnsStrong(text string, i int, strong bool) bool {
	before, after := at(text, i-1), at(text, i+2)
	switch {
	case at(text, i+1) != '*':
		return false
	case !strong:
		return before == ' ' && isAlnum(after)
	case after == ' ':
		return before > ' ' && before < 0x80
	}
	return isAlnum(before) && strings.IndexByte(".,:;!?)", after) >= 0
}

// codeLen is the length of the code span that text begins with; 0 if it is none or its spaces would not all be kept.
func codeLen(text string) int {
	n := strings.IndexByte(text[1:], '`') + 2
	if n < 3 || at(text, n) == '`' {
		return 0
	}
	code := text[1 : n-1]
	if code[0] == ' ' || code[len(code)-1] == ' ' || strings.Contains(code, "  ") || strings.Contains(code, "\t") {
		return 0
	}
	return n
}

// isText reports whether the character at i means nothing but itself there.
func isText(text string, i int) bool {
	before, after := at(text, i-1), at(text, i+1)
	switch c := text[i]; c {
	case ' ':
		return before != ' ' && i+1 < len(text)
	case '_':
		return isAlnum(before) && isAlnum(after)
	case '&':
		return after == ' '
	default:
		return strings.IndexByte(`.,:;!?'"()[]{}/#%+$=^|>-`, c) >= 0
	}
}

// at is a byte of a line, a blank before and behind it.
func at(line string, i int) byte {
	if i < 0 || i >= len(line) {
		return ' '
	}
	return line[i]
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// isWord reports whether a byte is of a letter, a digit or a character beyond ASCII.
func isWord(c byte) bool { return isAlnum(c) || c >= 0x80 }
