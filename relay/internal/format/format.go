// Package format turns a message into the content of a Matrix event: Markdown or
// HTML into the subset of HTML that Matrix allows, a readable plain body, the
// event shape of its priority, all within the size of an event. It is pure: no
// clock, no network, the same input gives the same bytes.
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

// DefaultBudget is the number of bytes an event's content may have. An event is
// bounded to 65,536 bytes with all that the homeserver adds: room, sender,
// references, hashes and signatures (Matrix client-server API, size limits).
const DefaultBudget = 60 << 10

// EncryptedBudget is that of an event that is encrypted, which makes it a third larger and wraps it.
const EncryptedBudget = 44 << 10

const (
	minBudget   = 4 << 10
	maxTitle    = 1 << 10
	truncated   = "\n… (truncated)"
	sourceTimes = 2 // source is cut to this many budgets before it is parsed, to bound the time
)

// Message is what shall be shown.
type Message struct {
	Sender      string // name of the application, before the title; may be empty
	Title       string
	Body        string
	ContentType string // Markdown, Plain or HTML; "" is Markdown
	Priority    int    // -2 … 2
	Mention     string // Matrix ID of the application's owner; may be empty
	Whom        string // whom priorities 1 and 2 mention: "" or auto, room, owner, none, or Matrix IDs with spaces between
	Marker      string // by which the event is found again, see MarkerOf
}

// Options of Render.
type Options struct {
	ColoredTitle  bool // colour the title by priority
	PriorityWords bool // say the priority in the title, unless it is normal
	Budget        int  // largest content in bytes; 0 is DefaultBudget
	MaxEvents     int  // that a long message is split into; 0 is DefaultEvents
}

// Event is a rendered message, or a part of one.
type Event struct {
	Content   []byte // of an m.room.message, canonical JSON
	Truncated bool   // the body was cut: FullText has the rest
}

// PartMarker is the marker of a message's event by its place, which begins at 0.
func PartMarker(marker string, i int) string {
	if i == 0 {
		return marker
	}
	return marker + "p" + strconv.Itoa(i)
}

// PartOf is the place that PartMarker has put into a marker; 0 for any other.
func PartOf(part, marker string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(part, marker+"p"))
	if err != nil {
		return 0
	}
	return n
}

// Render builds the event of a message. When the content would be too large, the
// formatted body goes first; if the plain one alone is still too large it is cut
// at the end of a line or a rune and says so.
func Render(m Message, o Options) Event {
	e, _ := renderOne(m, o)
	return e
}

// Events builds the events of a message, in the order of sending: one, or if its formatting or text would be
// lost for its size, up to o.MaxEvents that end between blocks, items or lines where possible. If the last is truncated,
// the full text belongs into a file behind it. Only the first mentions anybody.
func Events(m Message, o Options) []Event {
	e, whole := renderOne(m, o)
	limit := cmp.Or(o.MaxEvents, DefaultEvents)
	if whole || limit == 1 {
		return []Event{e}
	}
	// Where the parts end depends on the message alone: the others are rendered later, when names may have changed.
	title := cleanTitle(m.Title)
	frame := content{message: m, body: joinTitle(title, " "), formatted: titleHTML(title, m.Priority, true) + " "}
	frame.message.Mention, frame.message.Whom = "", ""
	const spare = 8 << 10 // for the names of the sender and the owner, and for tags that a part closes and the next repeats
	budget := o.budget() - len(frame.json()) - spare
	title = titleOf(m, o)
	most := limit * o.budget()
	if m.ContentType != Plain {
		most /= 2 // the text stands there twice
	}
	source, cut := cutSource(cleanText(m.Body), most)
	parts := splitBody(m.ContentType, source, budget, limit)
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

func splitBody(contentType, source string, budget, limit int) []rendered {
	if contentType == Plain || contentType != HTML && !affordable(source) {
		return splitPlain(source, budget)
	}
	text, literal := []byte(source), false
	if contentType != HTML {
		text, literal = markdown(source), true
	}
	parts := sanitizeParts(text, literal, budget, limit)
	if parts[0].text == "" {
		return splitPlain(source, budget)
	}
	return parts
}

// renderOne makes one event of the message. whole is false if its formatting or a part of its text is lost.
func renderOne(m Message, o Options) (e Event, whole bool) {
	budget := o.budget()
	source, cut := cutSource(cleanText(m.Body), sourceTimes*budget)
	r := render(m.ContentType, source, budget)
	c := content{message: m}
	e = c.fit(titleOf(m, o), r, cut || r.cut, o)
	return e, !e.Truncated && (c.formatted != "" || !r.markup)
}

// fit makes an event of a rendered body within the budget. cut says that there is more.
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
	return max(o.Budget, minBudget)
}

// Body renders a body alone: sanitised HTML that is safe inside a page, and text.
func Body(contentType, source string) (html, text string) {
	source, _ = cutSource(cleanText(source), sourceTimes*DefaultBudget)
	r := render(contentType, source, DefaultBudget)
	return r.html, r.text
}

// FullText is the message as its sender wrote it, for the file that goes with a
// truncated event.
func FullText(m Message) []byte {
	return []byte(joinTitle(cleanTitle(m.Title), m.Body) + "\n")
}

// rendered is a body in both of its forms.
type rendered struct {
	html, text string
	markup     bool // html says more than text
	cut        bool // text was cut
}

func render(contentType, source string, limit int) rendered {
	switch contentType {
	case Plain:
		return plain(source)
	case HTML:
		r := sanitize([]byte(source), false, limit)
		if r.text == "" {
			return plain(source) // nothing but tags: show them rather than nothing
		}
		return r
	}
	if r, ok := renderSimple(source); ok {
		return r
	}
	if !affordable(source) {
		return plain(source)
	}
	r := sanitize(markdown(source), true, limit)
	if r.text == "" {
		return plain(source)
	}
	return r
}

func plain(source string) rendered {
	source = strings.TrimSpace(source)
	html := strings.ReplaceAll(string(appendEscaped(nil, source)), "\n", "<br>")
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

// priorityWords are for readers who see no colours: on a lock screen, through a screen reader.
var priorityWords = map[int]string{-2: "[lowest]", -1: "[low]", 1: "[high]", 2: "[highest]"}

// titleOf is the first line of the event: the priority in words, who sends, and the title.
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

// titleColors are data-mx-color values by priority; a normal message has none.
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

// cleanTitle makes one line of at most maxTitle bytes.
func cleanTitle(s string) string {
	s = strings.Join(strings.Fields(cleanText(s)), " ")
	if len(s) <= maxTitle {
		return s
	}
	return s[:runeStart(s, maxTitle)] + "…"
}

// cleanText makes valid UTF-8 with Unix line ends and no other control
// characters than tab: some homeservers refuse a NUL, no client shows the rest.
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

// cutSource bounds what is parsed, at the end of a line if one is near.
func cutSource(s string, limit int) (string, bool) {
	if len(s) <= limit {
		return s, false
	}
	return s[:lineEnd(s, runeStart(s, limit))], true
}

// runeStart is the last start of a rune at or before i.
func runeStart(s string, i int) int {
	for i > 0 && i < len(s) && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

// lineEnd is the end of the last line that ends in the last quarter of s[:i], or i.
func lineEnd(s string, i int) int {
	if n := strings.LastIndexByte(s[:i], '\n'); n > i-i/4 {
		return n
	}
	return i
}
