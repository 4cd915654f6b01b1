package format

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mrkdwn returns the HTML of Slack's markup: *bold*, _italic_, ~struck~, `code`, fenced code, > quotes and
// references such as <https://example.org|label> (https://docs.slack.dev/messaging/formatting-message-text).
func Mrkdwn(s string) string {
	var b strings.Builder
	for i, part := range strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "```") {
		switch {
		case i%2 == 1:
			b.WriteString("<pre><code>" + html.EscapeString(unescape(strings.Trim(part, "\n"))) + "</code></pre>")
		case strings.Trim(part, "\n") != "":
			b.WriteString(mrkdwnLines(strings.Trim(part, "\n")))
		}
	}
	return b.String()
}

func mrkdwnLines(s string) string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		quoted, isQuote := strings.CutPrefix(line, "&gt;")
		if !isQuote {
			quoted, isQuote = strings.CutPrefix(line, ">")
		}
		out := mrkdwnLine(strings.TrimPrefix(quoted, " "))
		if isQuote {
			out = "<blockquote>" + out + "</blockquote>"
		}
		lines = append(lines, out)
	}
	text := strings.Join(lines, "<br>")
	text = strings.ReplaceAll(text, "</blockquote><br><blockquote>", "<br>")
	text = strings.ReplaceAll(text, "</blockquote><br>", "</blockquote>")
	return strings.ReplaceAll(text, "<br><blockquote>", "<blockquote>")
}

// mrkdwnLine renders a line. Code spans and references come first: emphasis doesn't reach into them.
func mrkdwnLine(line string) string {
	var b strings.Builder
	marks := "`<"
	for from := 0; ; {
		i := strings.IndexAny(line[from:], marks)
		if i < 0 {
			break
		}
		i += from
		closing := "`"
		if line[i] == '<' {
			closing = ">"
		}
		length := strings.Index(line[i+1:], closing)
		if length < 0 { // nor does a later mark of this kind end
			marks = strings.Replace(marks, line[i:i+1], "", 1)
			from = i + 1
			continue
		}
		b.WriteString(emphasis(line[:i]))
		inside := line[i+1 : i+1+length]
		if closing == "`" {
			b.WriteString(Code(unescape(inside)))
		} else {
			b.WriteString(reference(inside))
		}
		line, from = line[i+length+2:], 0
	}
	b.WriteString(emphasis(line))
	return b.String()
}

// reference renders the inside of <…>: a link, or a mention of a channel, group or user.
func reference(s string) string {
	target, label, _ := strings.Cut(s, "|")
	target, label = unescape(target), unescape(label)
	switch {
	case strings.HasPrefix(target, "!date^"):
		return html.EscapeString(label)
	case strings.HasPrefix(target, "!"), strings.HasPrefix(target, "@"), strings.HasPrefix(target, "#"):
		if label == "" {
			label = target[1:]
		}
		sigil := "@"
		if target[0] == '#' {
			sigil = "#"
		}
		return html.EscapeString(sigil + strings.TrimLeft(label, "@#"))
	case strings.HasPrefix(target, "mailto:"):
		if label == "" {
			label = strings.TrimPrefix(target, "mailto:")
		}
		return html.EscapeString(label)
	case label == "" && !IsWeb(target):
		return html.EscapeString("<" + target + ">")
	}
	return Link(label, target)
}

var tags = map[byte]string{'*': "strong", '_': "em", '~': "del"}

// emphasis renders *bold*, _italic_ and ~struck~. A mark opens at the beginning of a word and closes at the end of one.
func emphasis(s string) string { return emphasisWithin(s, closers(s), 0, len(s)) }

// closers returns, for each mark, the position of the next closing mark at or after each index; len(s) if there is none.
func closers(s string) map[byte][]int {
	next := map[byte][]int{}
	for mark := range tags {
		if strings.Count(s, string(mark)) < 2 {
			continue
		}
		at := make([]int, len(s)+1)
		at[len(s)] = len(s)
		for i := len(s) - 1; i >= 0; i-- {
			at[i] = at[i+1]
			if s[i] == mark && i > 0 && s[i-1] != ' ' && s[i-1] != mark && !startsWord(s[i+1:]) {
				at[i] = i
			}
		}
		next[mark] = at
	}
	return next
}

func emphasisWithin(s string, next map[byte][]int, from, to int) string {
	var b strings.Builder
	plain := from
	for i := from; i < to; i++ {
		at, isMark := next[s[i]]
		if !isMark || i+1 >= to || s[i+1] == ' ' || s[i+1] == s[i] || endsWord(s[:i]) {
			continue
		}
		closing := at[i+1]
		if closing >= to {
			continue
		}
		tag := tags[s[i]]
		b.WriteString(html.EscapeString(unescape(s[plain:i])) + "<" + tag + ">" + emphasisWithin(s, next, i+1, closing) + "</" + tag + ">")
		plain, i = closing+1, closing
	}
	b.WriteString(html.EscapeString(unescape(s[plain:to])))
	return b.String()
}

func startsWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

func endsWord(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

var entities = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")

// unescape replaces the three entities that Slack's senders write.
func unescape(s string) string { return entities.Replace(s) }
