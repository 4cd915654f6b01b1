// Package format turns a message into the contents of Matrix events: Markdown or HTML becomes the subset of HTML that Matrix
// allows and a readable plain body, within the size of an event. The same input gives the same bytes. Rendering is bounded in
// time and memory: a source that exceeds the bounds is shown as plain text.
package format

import (
	"cmp"
	"strconv"
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
// the homeserver adds; encryption makes the content a third larger. Encrypted rooms and others share the budget, so a message
// has the same events in both.
const DefaultBudget = 44 << 10

// MinBudget is the smallest budget. No homeserver refuses an event of this size as too large.
const MinBudget = 4 << 10

const (
	maxTitle    = 1 << 10
	truncated   = "\n… (truncated)"
	sourceTimes = 2         // a single event parses at most this many budgets of source
	maxSource   = 256 << 10 // several events parse at most this much Markdown or HTML
	largeSource = 16 << 10  // sources above this size are rendered by few goroutines at a time
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
	Budget        int  // largest content in bytes, at least MinBudget; 0 means DefaultBudget
	MaxEvents     int  // most events of a long message; 0 means DefaultEvents

	MediaServer string // the homeserver whose media (mxc:) images may show; "" for none
}

// Event is a rendered message, or a part of one.
type Event struct {
	Content   []byte // of an m.room.message, canonical JSON
	Truncated bool   // the body was cut; FullText has all of it
}

// PartMarker returns the marker of a message's i-th event, counting from 0.
func PartMarker(marker string, i int) string {
	if i == 0 {
		return marker
	}
	return marker + "p" + strconv.Itoa(i)
}

// Render builds a single event of a message. If the content exceeds the budget, the formatted body is dropped; if the plain
// body alone still exceeds it, the body is cut at the end of a line or a rune and ends with a note.
func Render(m Message, o Options) Event {
	e, _ := renderOne(m, o)
	return e
}

// Events builds the events of a message, in the order of sending. A message that loses formatting or text in a single event is
// split into at most o.MaxEvents, between blocks, items, or lines where possible. If the last is truncated, the full text
// belongs in a file after it. Only the first event mentions anybody.
func Events(m Message, o Options) []Event {
	e, whole := renderOne(m, o)
	limit := cmp.Or(o.MaxEvents, DefaultEvents)
	if whole || limit == 1 {
		return []Event{e}
	}
	// Where parts end depends on the message alone, because names may change before the later parts are rendered.
	title := cleanTitle(m.Title)
	frame := content{message: m, body: joinTitle(title, " "), formatted: titleHTML(title, m.Priority, true) + " "}
	frame.message.Mention, frame.message.Mentions = "", ""
	const spare = 8 << 10 // for the names of the sender and the owner, and for tags that a part closes and the next reopens
	budget := o.budget() - len(frame.json()) - spare
	title = titleOf(m, o)
	most := limit * o.budget()
	if m.ContentType != Plain {
		most = min(most/2, maxSource) // body and formatted_body both have the text
	}
	source, cut := cutSource(m.Source(), most)
	parts := split(m.ContentType, source, budget, limit, o.MediaServer)
	if len(parts) > limit {
		parts, cut = parts[:limit], true
	}
	events := make([]Event, len(parts))
	for i, r := range parts {
		part := content{message: m, continued: i > 0}
		part.message.Marker = PartMarker(m.Marker, i)
		heading := title
		if i > 0 {
			heading = ""
		}
		events[i] = part.fit(heading, r, cut && i == len(parts)-1, o)
	}
	return events
}

// split renders a source in parts.
func split(contentType, source string, budget, limit int, media string) (parts []rendered) {
	if contentType == Plain {
		return splitPlain(source, budget)
	}
	defer acquire(source)()
	defer func() {
		if recover() != nil || parts[0].text == "" {
			parts = splitPlain(source, budget)
		}
	}()
	if contentType == HTML {
		return sanitizeParts([]byte(source), false, budget, limit, media)
	}
	return sanitizeParts(markdown(source), true, budget, limit, media)
}

// acquire waits for a slot if the source is large. The caller must call release.
func acquire(source string) (release func()) {
	if len(source) <= largeSource {
		return func() {}
	}
	slots <- struct{}{}
	return func() { <-slots }
}

// renderOne builds a single event. whole is false if the event lacks formatting or text of the message.
func renderOne(m Message, o Options) (e Event, whole bool) {
	budget := o.budget()
	source, cut := cutSource(m.Source(), sourceTimes*budget)
	r := render(m.ContentType, source, budget, o.MediaServer)
	c := content{message: m}
	e = c.fit(titleOf(m, o), r, cut || r.cut, o)
	return e, !e.Truncated && (c.formatted != "" || !r.markup)
}

// fit builds an event of a rendered body within the budget. cut reports that the body lacks text of the message.
func (c *content) fit(title string, r rendered, cut bool, o Options) Event {
	budget := o.budget()
	c.body = joinTitle(title, r.text)
	if r.markup || title != "" {
		c.formatted = titleHTML(title, c.message.Priority, o.ColoredTitle) + r.html
	}
	if cut {
		c.body += truncated
		if c.formatted != "" {
			c.formatted += "<p>" + strings.TrimSpace(truncated) + "</p>"
		}
	}
	out := c.json()
	if len(out) > budget && c.formatted != "" {
		c.formatted = ""
		out = c.json()
	}
	if len(out) > budget {
		c.body = cutJSON(c.body, budget-(len(out)-jsonLen(c.body)), truncated)
		out, cut = c.json(), true
	}
	return Event{Content: out, Truncated: cut}
}

func (o Options) budget() int {
	if o.Budget == 0 {
		return DefaultBudget
	}
	return max(o.Budget, MinBudget)
}

// Body renders a body without a title as sanitized HTML, which is safe inside a page and has no images, and as text.
func Body(contentType, source string) (html, text string) {
	source, _ = cutSource(cleanText(source), sourceTimes*DefaultBudget)
	r := render(contentType, source, DefaultBudget, "")
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

// lineEnd returns the end of the last line that ends in the last quarter of s[:i], or i.
func lineEnd(s string, i int) int {
	if n := strings.LastIndexByte(s[:i], '\n'); n > i-i/4 {
		return n
	}
	return i
}
