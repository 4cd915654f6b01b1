package post

import (
	"strconv"
	"strings"

	"slipway/relay/internal/format"
	"slipway/shared/plural"
)

const (
	shownLines = 10
	maxLine    = 200 // bytes
)

// Digest holds the state of the digest of an application's latest messages, or of those with a topic. Times are Unix milliseconds.
type Digest struct {
	ApplicationID int64
	Topic         string // "" for messages without one
	BeganAt       int64  // of the window, with a message that was sent
	MessageID     int64  // the message that collects the others; 0 before there is one. With a topic it is the first message
	Times         int    // messages collected
	Lines         string // the last of them
	Priority      int    // the highest of them
}

// DigestLine returns the line of a digest that stands for a message, of its title and the first line of its text.
func DigestLine(title, text string) string {
	line := strings.TrimSpace(title)
	if first, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); first != "" {
		if line != "" {
			line += ": "
		}
		line += first
	}
	return format.Line(line, maxLine)
}

// Collect applies a message, given by its [DigestLine], to a digest. window is in milliseconds. A collected message isn't sent on its own.
func Collect(f Digest, window, at int64, line string, priority int) (next Digest, collected bool) {
	if at < f.BeganAt || at >= f.BeganAt+window {
		f = Digest{ApplicationID: f.ApplicationID, Topic: f.Topic, BeganAt: at}
		if f.Topic != "" {
			f.Times, f.Lines, f.Priority = 1, line, priority
		}
		return f, false
	}
	lines := append(strings.Split(f.Lines, "\n"), line)
	if f.Times == 0 {
		lines, f.Priority = lines[1:], priority
	}
	f.Times++
	f.Priority = max(f.Priority, priority)
	f.Lines = strings.Join(lines[max(0, len(lines)-shownLines):], "\n")
	return f, true
}

// Withdrawn returns the digest after its message was withdrawn. With a topic the next message is sent on its own.
func (f Digest) Withdrawn() Digest {
	if f.Topic != "" {
		return Digest{ApplicationID: f.ApplicationID, Topic: f.Topic}
	}
	return Digest{ApplicationID: f.ApplicationID, BeganAt: f.BeganAt}
}

// DigestsSeveral reports whether a message of this title collects more than one: Message has made the title, or the application, which can
// edit a message that collects only one.
func DigestsSeveral(title string) bool { return strings.HasSuffix(title, " messages") }

// Message returns the message that collects the others, as plain text.
func (f Digest) Message() (title, body string) {
	title = plural.Of(f.Times, "more message")
	if f.Topic != "" {
		title = f.Topic + ": " + plural.Of(f.Times, "message")
	}
	if f.Times > shownLines {
		return title, "The last " + strconv.Itoa(shownLines) + ":\n" + f.Lines
	}
	return title, f.Lines
}
