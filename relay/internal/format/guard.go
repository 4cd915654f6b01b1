package format

import "strings"

// The Markdown parser takes time in the square of some things: containers nested
// in one line, brackets and emphasis that never close in one paragraph. What goes
// beyond these bounds is no message that a person wrote, and is shown as text.
const (
	maxContainers = 100
	maxInline     = 64 << 20 // of delimiters × bytes, summed over paragraphs: some tenths of a second
)

// affordable tells whether Markdown is parsed in bounded time. It looks at each byte once.
func affordable(source string) bool {
	total, delimiters, length := 0, 0, 0
	for source != "" {
		line, rest, _ := strings.Cut(source, "\n")
		source = rest
		if containers(line) > maxContainers {
			return false
		}
		if endsParagraph(line) {
			delimiters, length = 0, 0
		}
		total -= delimiters * length
		for i := range len(line) {
			switch line[i] {
			case '[', ']', '*', '_', '~':
				delimiters++
			}
		}
		length += len(line)
		if total += delimiters * length; total > maxInline {
			return false
		}
	}
	return true
}

// endsParagraph tells whether what came before is closed for inline markup: at an
// empty line, and at a bullet (a number can be text that goes on).
func endsParagraph(line string) bool {
	text := strings.TrimLeft(line, " ")
	if strings.TrimSpace(text) == "" {
		return true
	}
	bullet := text[0] == '-' || text[0] == '*' || text[0] == '+'
	return bullet && len(line)-len(text) <= 3 && len(text) > 2 && text[1] == ' ' && text[2] > ' '
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
