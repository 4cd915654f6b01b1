package format

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/atom"
)

// maxIndent bounds a line's prefix, which repeats for each line of a nested block.
const maxIndent = 24

// textWriter writes readable plain text of tags and texts.
type textWriter struct {
	out    []byte
	limit  int
	full   bool // the limit is reached; the rest is dropped
	breaks int  // line ends due before the next text
	space  bool // a blank is due before the next text
	pre    int  // open <pre>
	prefix []byte
	marker string // of a list item, due on its first line
	markAt int    // how much of the prefix stands before it
	label  []byte // text of the link that was opened last
	lists  []list
	saved  []int // lengths of prefix to return to
	cells  int   // in the row so far
}

type list struct {
	ordered bool
	number  int
}

func (w *textWriter) String() string { return strings.TrimRight(string(w.out), " \n") }

// lines requests n line ends before the next text.
func (w *textWriter) lines(n int) {
	w.space = false
	if len(w.out) == 0 || w.marker != "" {
		return // the start, or a list item whose first line is still empty
	}
	w.breaks = max(w.breaks, n)
}

// write writes text; outside of <pre> it collapses white space.
func (w *textWriter) write(s string) {
	if w.pre > 0 {
		w.writeLines(s)
		return
	}
	for len(s) > 0 {
		n := strings.IndexAny(s, " \t\n\r\f")
		if n == 0 {
			w.space = w.space || len(w.out) > 0 && w.breaks == 0 && w.marker == ""
			s = strings.TrimLeft(s, " \t\n\r\f")
			continue
		}
		if n < 0 {
			n = len(s)
		}
		w.word(s[:n])
		s = s[n:]
	}
}

// writeLines writes text with its white space.
func (w *textWriter) writeLines(s string) {
	for {
		line, rest, more := strings.Cut(s, "\n")
		if line != "" {
			w.word(line)
		}
		if !more {
			return
		}
		w.breaks++
		s = rest
	}
}

func (w *textWriter) word(s string) {
	if w.full {
		return
	}
	switch {
	case w.breaks > 0 || len(w.out) == 0:
		w.breakLine()
	case w.space:
		w.out = append(w.out, ' ')
		w.label = append(w.label, ' ')
	}
	w.space = false
	if room := w.limit - len(w.out); len(s) > room {
		w.full = true
		s = s[:runeStart(s, max(0, room))]
	}
	w.out = append(w.out, s...)
	w.label = append(w.label, s...)
}

func (w *textWriter) breakLine() {
	for range min(w.breaks, w.limit-len(w.out)) {
		w.out = append(w.out, '\n')
	}
	w.breaks = 0
	if w.marker == "" {
		w.out = append(w.out, w.prefix...)
		return
	}
	w.out = append(append(w.out, w.prefix[:w.markAt]...), w.marker...)
	w.marker = ""
}

// openTag writes the start of an element.
func (w *textWriter) openTag(tag atom.Atom) {
	switch tag {
	case atom.P, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Table, atom.Details:
		w.lines(2)
	case atom.Div, atom.Summary, atom.Caption:
		w.lines(1)
	case atom.Pre:
		w.lines(2)
		w.pre++
	case atom.Ul, atom.Ol:
		w.lines(2 - min(1, len(w.lists)))
		w.lists = append(w.lists, list{ordered: tag == atom.Ol})
	case atom.Li:
		w.item()
	case atom.Blockquote:
		w.lines(2)
		w.indent("> ")
	case atom.Tr:
		w.lines(1)
		w.cells = 0
	case atom.Td, atom.Th:
		w.cell()
	case atom.Br:
		w.space = false
		w.breaks++
	case atom.Hr:
		w.lines(2)
		w.word("---")
		w.lines(2)
	case atom.A:
		w.label = w.label[:0]
	}
}

// closeTag writes the end of an element.
func (w *textWriter) closeTag(tag atom.Atom) {
	switch tag {
	case atom.P, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Table, atom.Details:
		w.lines(2)
	case atom.Div, atom.Summary, atom.Caption, atom.Tr:
		w.lines(1)
	case atom.Pre:
		w.pre--
		w.breaks = 0
		w.lines(2)
	case atom.Ul, atom.Ol:
		w.lists = w.lists[:len(w.lists)-1]
		w.lines(2 - min(1, len(w.lists)))
	case atom.Li:
		w.marker = ""
		w.unindent()
		w.lines(1)
	case atom.Blockquote:
		w.unindent()
		w.lines(2)
	}
}

func (w *textWriter) item() {
	w.lines(1)
	marker := "• "
	if n := len(w.lists); n > 0 && w.lists[n-1].ordered {
		w.lists[n-1].number++
		marker = strconv.Itoa(w.lists[n-1].number) + ". "
	}
	w.marker, w.markAt = marker, len(w.prefix)
	w.indent(strings.Repeat(" ", utf8.RuneCountInString(marker)))
}

// countFrom sets the first number of the innermost list.
func (w *textWriter) countFrom(start string) {
	if n, err := strconv.Atoi(start); err == nil {
		w.lists[len(w.lists)-1].number = n - 1
	}
}

func (w *textWriter) indent(s string) {
	w.saved = append(w.saved, len(w.prefix))
	if len(w.prefix) < maxIndent {
		w.prefix = append(w.prefix, s...)
	}
}

func (w *textWriter) unindent() {
	w.prefix = w.prefix[:w.saved[len(w.saved)-1]]
	w.saved = w.saved[:len(w.saved)-1]
}

func (w *textWriter) cell() {
	if w.cells > 0 {
		w.space = true
		w.word("|")
		w.space = true
	}
	w.cells++
}

// link writes the link's destination, unless its text equals it.
func (w *textWriter) link(href string) {
	text := strings.TrimSpace(string(w.label))
	if text == "" {
		w.word(href)
		return
	}
	plain, err := url.PathUnescape(href)
	if err != nil {
		plain = href
	}
	for _, scheme := range []string{"", "http://", "https://", "mailto:"} {
		if said := scheme + text; said == href || said == plain || said+"/" == href {
			return
		}
	}
	w.breaks, w.space = 0, true
	w.word("(" + href + ")")
}
