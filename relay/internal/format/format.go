// Package format turns a message into the contents of Matrix events: Markdown or HTML becomes the subset of HTML that Matrix
// allows and a readable plain body, within the size of an event. The same input gives the same bytes. Rendering is bounded in
// time and memory: a source that exceeds the bounds is shown as plain text.
package format

import (
	"math"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Markup of a body. Anything else is taken as Markdown.
const (
	Markdown = "text/markdown"
	Plain    = "text/plain"
	HTML     = "text/html"
)

// DefaultBudget is the largest content of an event in bytes. Matrix limits an event to 65,536 bytes including the fields that
// the homeserver adds; encryption makes the content a third larger. Encrypted rooms and others share the budget.
const DefaultBudget = 44 << 10

// MinBudget is the smallest budget. No homeserver refuses an event of this size as too large.
const MinBudget = 4 << 10

const (
	maxTitle    = 1 << 10
	maxSource   = 4 * DefaultBudget // bytes that are parsed at most
	largeSource = 16 << 10          // sources above this size are rendered by few goroutines at a time
	maxCuts     = 4                 // of the HTML of a message that is too large
)

// The last lines of a body that is cut.
const (
	inFile = "\n… The whole text is in the file below."
	onPage = "\n… The relay's page of this message has the whole text."
)

// slots bounds the memory of concurrent renders: a large hostile source takes up to 70 MB.
var slots = make(chan struct{}, 2)

// Message is a message to render.
type Message struct {
	Sender      string // name of the application, shown before the title; may be empty
	Title       string
	Note        string // a line of plain text above the body; may be empty
	Body        string
	ContentType string // Markdown, Plain or HTML; "" is Markdown
	Priority    int    // -2 … 2
	Mention     string // Matrix ID of the application's owner; may be empty
	Mentions    string // recipients of mentions at priorities 1 and 2: auto (the same as ""), room, owner, none, or Matrix IDs separated by spaces
	Marker      string // identifies the event, see MarkerOf
}

// Options of Render.
type Options struct {
	ColoredTitle  bool // color the title by priority
	PriorityWords bool // put the priority into the title, unless it is normal
	NoFile        bool // no file with the full text follows an event that is cut: the text matters more than its formatting
	Budget        int  // largest content in bytes, at least MinBudget; 0 means DefaultBudget

	MediaServer string // the homeserver whose media (mxc:) images may show; "" for none
}

// Event is a rendered message.
type Event struct {
	Content   []byte // of an m.room.message, canonical JSON
	Truncated bool   // the body was cut; FullText has all of it
}

// Render builds the event of a message. If the content exceeds the budget, the event has the beginning of the message, cut at the
// end of a block, line or word, and a line that says where the whole text is.
func Render(m Message, o Options) Event {
	budget, title := o.budget(), titleOf(m, o)
	source, cut := cutSource(m.Source(), maxSource)
	r := render(m.ContentType, source, budget, o.MediaServer)
	r.cut = r.cut || cut
	c := content{message: m, note: inFile}
	if o.NoFile {
		c.note = onPage
	}
	out := c.fill(title, r, o)
	if len(out) > budget && r.markup && !o.NoFile {
		out, r.cut = c.beginning(title, r, len(out), o), true
	}
	if len(out) > budget {
		return c.unformatted(title, r, budget)
	}
	return Event{Content: out, Truncated: r.cut}
}

// beginning builds the content of the beginning of r, which takes size bytes. The result exceeds the budget if hardly anything fits.
func (c *content) beginning(title string, r rendered, size int, o Options) (out []byte) {
	budget := o.budget()
	html := r.html
	frame := len(c.fill(title, rendered{markup: true, cut: true}, o))
	for range maxCuts {
		n := len(html) * max(0, budget-frame) / max(1, size-frame)
		html = cutHTML(html, n-n/16)
		part := sanitize([]byte(html), false, budget, o.MediaServer)
		part.markup, part.cut = true, true
		if out = c.fill(title, part, o); len(out) <= budget {
			return out
		}
		size = len(out)
	}
	return out
}

// unformatted builds an event of the text alone, which is cut if it exceeds the budget.
func (c *content) unformatted(title string, r rendered, budget int) Event {
	c.body, c.formatted = joinTitle(title, r.text), ""
	if r.cut {
		c.body += c.note
	}
	out := c.json()
	if len(out) > budget {
		r.cut = true
		c.body = cutJSON(joinTitle(title, r.text), budget-(len(out)-jsonLen(c.body)), c.note)
		out = c.json()
	}
	return Event{Content: out, Truncated: r.cut}
}

// fill builds the content of a rendered body.
func (c *content) fill(title string, r rendered, o Options) []byte {
	c.body, c.formatted = joinTitle(title, r.text), ""
	if r.markup || title != "" {
		c.formatted = titleHTML(title, c.message.Priority, o.ColoredTitle) + r.html
	}
	if r.cut {
		c.body += c.note
		if c.formatted != "" {
			c.formatted += "<p>" + strings.TrimSpace(c.note) + "</p>"
		}
	}
	return c.json()
}

// acquire waits for a slot if the source is large. The caller must call release.
func acquire(source string) (release func()) {
	if len(source) <= largeSource {
		return func() {}
	}
	slots <- struct{}{}
	return func() { <-slots }
}

func (o Options) budget() int {
	if o.Budget == 0 {
		return DefaultBudget
	}
	return max(o.Budget, MinBudget)
}

// Body renders a body without a title as sanitized HTML, which is safe inside a page and has no images, and as text. It cuts neither.
func Body(contentType, source string) (html, text string) {
	source = cleanText(source)
	if contentType != HTML && len(source) > maxSource { // Markdown's parser takes many times the size in memory
		contentType = Plain
	}
	r := render(contentType, source, math.MaxInt, "")
	return r.html, r.text
}

// FullText returns the message as its sender wrote it, for the file after a truncated event.
func FullText(m Message) []byte {
	return []byte(joinTitle(cleanTitle(m.Title), m.Body) + "\n")
}

// rendered is a body in both of its forms.
type rendered struct {
	html, text string
	markup     bool // html has formatting that text lacks
	cut        bool // text was cut
}

func render(contentType, source string, limit int, media string) (r rendered) {
	if contentType == Plain {
		return plain(source)
	}
	defer acquire(source)()
	defer func() {
		if recover() != nil || r.text == "" { // nothing but tags: show them
			r = plain(source)
		}
	}()
	if contentType == HTML {
		return sanitize([]byte(source), false, limit, media)
	}
	return sanitize(markdown(source), true, limit, media)
}

func plain(source string) rendered {
	source = TrimLines(source)
	html := strings.ReplaceAll(keepColumns(string(appendEscaped(nil, source))), "\n", "<br>")
	return rendered{html: html, text: source}
}

func joinTitle(title, body string) string {
	switch {
	case title == "":
		return body
	case body == "":
		return title
	}
	return title + "\n\n" + body
}

// priorityWords tell the priority where colors don't show, as on a lock screen or in a screen reader.
var priorityWords = map[int]string{-2: "[min]", -1: "[low]", 1: "[high]", 2: "[max]"}

// titleOf returns the first line of the event: priority, sender, and title.
func titleOf(m Message, o Options) string {
	sender, title := cleanTitle(m.Sender), cleanTitle(m.Title)
	if sender != "" && title != "" {
		sender += ": "
	}
	title = sender + title
	if word := priorityWords[m.Priority]; o.PriorityWords && word != "" {
		title = strings.TrimSpace(word + " " + title)
	}
	return title
}

// titleColors maps priorities to data-mx-color values; a normal message has none.
var titleColors = map[int]string{-2: "#828282", -1: "#828282", 1: "#ed6d11", 2: "#ed1f11"}

func titleHTML(title string, priority int, colored bool) string {
	if title == "" {
		return ""
	}
	escaped := string(appendEscaped(nil, title))
	if color := titleColors[priority]; colored && color != "" {
		escaped = `<span data-mx-color="` + color + `">` + escaped + "</span>"
	}
	return "<p><strong>" + escaped + "</strong></p>\n"
}

// cleanTitle returns a title as one line of at most maxTitle bytes.
func cleanTitle(s string) string {
	s = strings.Join(strings.Fields(cleanText(s)), " ")
	if len(s) <= maxTitle {
		return s
	}
	return s[:runeStart(s, maxTitle)] + "…"
}

// cleanText returns valid UTF-8 with Unix line ends and no control characters except tabs: some homeservers refuse NUL, and
// clients don't show the others.
func cleanText(s string) string {
	if isClean(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n'
		case unicode.IsControl(r) && r != '\n' && r != '\t':
			return -1
		}
		return r
	}, s)
}

func isClean(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
				return unicode.IsControl(r) && r != '\n' && r != '\t'
			}) < 0
		}
	}
	return true
}

// cutSource cuts a source to at most limit bytes, at the end of a line if one is near, and reports whether it did.
func cutSource(s string, limit int) (string, bool) {
	if len(s) <= limit {
		return s, false
	}
	return s[:lineEnd(s, runeStart(s, limit))], true
}

// runeStart returns the last start of a rune at or before i.
func runeStart(s string, i int) int {
	for i > 0 && i < len(s) && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

// cutHTML cuts allowed HTML to at most limit bytes, at the end of a block, line or word if one is near, else before a tag or an
// escaped character. It may leave elements open.
func cutHTML(s string, limit int) string {
	i := runeStart(s, min(limit, len(s)))
	for _, end := range []string{"\n", "</p>", "</li>", "</tr>", "<br>", " ", "<", "&"} {
		if n := strings.LastIndex(s[:i], end); n > i-i/4 {
			return s[:n]
		}
	}
	return s[:i]
}

// lineEnd returns the end of the last line that ends in the last quarter of s[:i], or i.
func lineEnd(s string, i int) int {
	if n := strings.LastIndexByte(s[:i], '\n'); n > i-i/4 {
		return n
	}
	return i
}

// blanks are the indent of a line, or blanks in a line that HTML would make one.
var blanks = regexp.MustCompile(`(?m)^[ \t]+|\t[ \t]*| [ \t]+`)

const (
	noBreakSpace = "\u00a0"
	tabWidth     = 8
)

// keepColumns returns a text for HTML with its indents and columns as no-break spaces: clients collapse blanks and tabs.
func keepColumns(s string) string {
	return blanks.ReplaceAllStringFunc(s, func(run string) string {
		return strings.ReplaceAll(strings.ReplaceAll(run, "\t", strings.Repeat(noBreakSpace, tabWidth)), " ", noBreakSpace)
	})
}

// TrimLines returns a text without empty lines at its start and white space at its end. It keeps the indent of the first line.
func TrimLines(s string) string {
	s = strings.TrimRightFunc(s, unicode.IsSpace)
	text := strings.TrimLeftFunc(s, unicode.IsSpace)
	return s[strings.LastIndexByte(s[:len(s)-len(text)], '\n')+1:]
}
