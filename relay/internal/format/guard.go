package format

import "strings"

// The Markdown parser takes time in the square of some things: containers nested
// in one line, brackets and emphasis that never close in one paragraph. What goes
// beyond these bounds is no message that a person wrote, and is shown as text.
const (
	maxContainers = 100
	maxInline     = 64 << 20 // of delimiters × bytes, summed over paragraphs: some tenths of a second
)

// affordable reports whether Markdown is parsed in bounded time. It looks at each byte once.
func affordable(source string) bool {
	g := guard{}
	for source != "" {
		line, rest, _ := strings.Cut(source, "\n")
		source = rest
		if g.inCode(line) {
			continue
		}
		if containers(line) > maxContainers || !g.pays(line) {
			return false
		}
	}
	return true
}

// guard adds up what the inline markup of a text costs.
type guard struct {
	total, delimiters, length int
	item                      bool   // the paragraph is that of a list item
	html                      bool   // a line began with a tag: where its block ends is not looked at
	fence                     string // of the code block that the line is in
}

// inCode reports whether the line is in a fenced code block, or its fence. Only fences at the beginning of a line count:
// others may end with the item or quote that they are in.
func (g *guard) inCode(line string) bool {
	g.html = g.html || g.fence == "" && strings.HasPrefix(strings.TrimLeft(line, " "), "<")
	if g.fence != "" {
		if rest, ok := strings.CutPrefix(line, g.fence); ok && strings.Trim(rest, g.fence[:1]+" \t\r") == "" {
			g.fence = ""
		}
		return true
	}
	n := len(line) - len(strings.TrimLeft(line, line[:min(1, len(line))]))
	if n < 3 || g.html || line[0] != '~' && (line[0] != '`' || strings.Contains(line[n:], "`")) {
		return false
	}
	g.fence, g.delimiters, g.length, g.item = line[:n], 0, 0, false
	return true
}

func (g *guard) pays(line string) bool {
	ends, item := endsParagraph(line, g.item)
	if ends {
		g.delimiters, g.length, g.item = 0, 0, item
	}
	g.total -= g.delimiters * g.length
	for i := range len(line) {
		switch line[i] {
		case '[', ']', '*', '_', '~':
			g.delimiters++
		}
	}
	g.length += len(line)
	g.total += g.delimiters * g.length
	return g.total <= maxInline
}

// endsParagraph reports whether what came before is closed for inline markup, and whether the line begins a list item:
// at an empty line, at a bullet, and at a number if an item is before it (else a number other than 1 is text that goes
// on).
func endsParagraph(line string, afterItem bool) (ends, item bool) {
	if strings.Trim(line, " \t\r>") == "" {
		return true, false
	}
	text := strings.TrimLeft(line, " ")
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	marker := strings.TrimLeft(text, "0123456789")
	number := digits > 0 && digits < 10 && strings.IndexAny(marker, ".)") == 0
	bullet := digits == 0 && strings.IndexAny(marker, "-*+") == 0
	item = len(line)-len(text) <= 3 && (bullet || number) && len(marker) > 2 && marker[1] == ' ' && marker[2] > ' '
	return item && (bullet || afterItem || text[:digits] == "1"), item
}

// containers counts quotes and list items that begin in the line. A ruler of
// dashes is none.
func containers(line string) int {
	n := 0
	for i := range len(line) {
		switch c := line[i]; {
		case c == '>':
			n++
		case c == '-', c == '*', c == '+', c == '.', c == ')':
			if i+1 < len(line) && (line[i+1] == ' ' || line[i+1] == '\t') {
				n++
			}
		case c == ' ', c == '\t', '0' <= c && c <= '9':
		default:
			return n
		}
	}
	return n
}
