package format

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html/atom"
)

// DefaultEvents is the largest number of events of a long message. The rest follows in a file.
const DefaultEvents = 8

const (
	chunk      = 512 // bytes of text between possible ends
	longestTag = 256 // a longer start tag loses its attributes in the next part
)

// Ranks of the places where a part may end, best first.
const (
	atBlock = iota // between blocks of the message
	atInner        // between blocks inside of another: items, rows
	atLine         // between lines
	atWord
	anywhere
	ranks
)

// splitter ends a part that becomes too large, at the best place in its second half.
type splitter struct {
	budget    int // of html and text as JSON strings; 0 does not split
	limit     int // of parts; the rest is ignored
	cost      int // of the part so far
	html, txt int // up to where it is measured
	places    [ranks]*place
	parts     []rendered
}

// place is a possible end of a part, with the elements that are open there.
type place struct {
	html, txt int
	open      []element
	numbers   []int // of the lists among them
}

// measure adds the cost of new output and splits if the part is too large.
func (s *sanitizer) measure() {
	p := &s.split
	if p.budget == 0 {
		return
	}
	p.cost += jsonLen(string(s.out[p.html:])) + jsonLen(string(s.text.out[p.txt:])) - 4
	p.html, p.txt = len(s.out), len(s.text.out)
	if p.cost <= p.budget {
		return
	}
	if i := slices.IndexFunc(p.places[:], func(at *place) bool { return at != nil }); i >= 0 {
		s.cut(p.places[i])
	}
}

// mark records a possible end of the part, if the part is long enough.
func (s *sanitizer) mark(rank int) {
	s.measure()
	if p := &s.split; p.cost > p.budget/2 && p.budget > 0 {
		at := &place{html: len(s.out), txt: len(s.text.out), open: slices.Clone(s.open)}
		for _, l := range s.text.lists {
			at.numbers = append(at.numbers, l.number)
		}
		p.places[rank] = at
	}
}

// markBlock records the end of a block.
func (s *sanitizer) markBlock(tag atom.Atom) {
	switch {
	case len(s.open) == 0:
		s.mark(atBlock)
	case blocks[tag] && !cells[tag]:
		s.mark(atInner)
	}
}

// cut ends the part at a place and starts the next with the output after it.
func (s *sanitizer) cut(at *place) {
	p := &s.split
	p.parts = append(p.parts, rendered{
		html: strings.TrimSpace(string(s.out[:at.html]) + closing(at.open)), text: strings.TrimRight(string(s.text.out[:at.txt]), " \n"), markup: true,
	})
	s.out = append([]byte(at.reopening()), s.out[at.html:]...)
	s.text.out = []byte(strings.TrimLeft(string(s.text.out[at.txt:]), " \n"))
	if len(s.text.out) == 0 {
		s.text.breaks, s.text.space = 0, false
	}
	p.places = [ranks]*place{}
	p.cost, p.html, p.txt = 0, 0, 0
	s.measure()
}

func closing(open []element) string {
	var b strings.Builder
	for _, e := range slices.Backward(open) {
		b.WriteString("</" + e.tag.String() + ">")
	}
	return b.String()
}

// reopening returns the start tags of the open elements. A numbered list continues its numbers.
func (at *place) reopening() string {
	var b strings.Builder
	numbers := at.numbers
	for i, e := range at.open {
		start := e.start
		if len(start) > longestTag {
			start = "<" + e.tag.String() + ">"
		}
		if (e.tag == atom.Ol || e.tag == atom.Ul) && len(numbers) > 0 {
			n := numbers[0]
			numbers = numbers[1:]
			if i == len(at.open)-1 || at.open[i+1].tag != atom.Li {
				n++
			}
			if e.tag == atom.Ol {
				start = `<ol start="` + strconv.Itoa(n) + `">`
			}
		}
		b.WriteString(start)
	}
	return b.String()
}

// pieces cuts a text at possible ends of a part and passes the rank of each.
func pieces(text string, lines bool, each func(piece string, rank int)) {
	for len(text) > chunk {
		n, rank := chunk, anywhere
		if i := strings.LastIndexByte(text[:chunk], '\n'); i >= 0 && lines {
			n, rank = i+1, atLine
		} else if i := strings.LastIndexByte(text[:chunk], ' '); i > 0 {
			n, rank = i+1, atWord
		} else {
			n = max(1, runeStart(text, n))
		}
		each(text[:n], rank)
		text = text[n:]
	}
	rank := anywhere
	if lines && strings.HasSuffix(text, "\n") {
		rank = atLine
	}
	each(text, rank)
}

// splitPlain cuts a text into parts of at most budget bytes as JSON strings, at line ends if possible.
func splitPlain(source string, budget int) (parts []rendered) {
	source = TrimLines(source)
	for len(parts) == 0 || source != "" {
		n, cost := 0, 2
		for n < len(source) && cost+escapedLen(source[n]) <= budget {
			cost += escapedLen(source[n])
			n++
		}
		if n < len(source) {
			n = max(1, lineEnd(source, runeStart(source, n))) // at least a byte, lest it loop
		}
		parts = append(parts, plain(source[:n]))
		source = strings.TrimLeft(source[n:], "\n")
	}
	return parts
}
