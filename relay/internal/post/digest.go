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

// Digest holds the state of the digest of an application's latest messages. Times are Unix milliseconds.
type Digest struct {
	ApplicationID int64
	BeganAt       int64  // of the window, with a message that was sent
	MessageID     int64  // the message that collects the others; 0 before there is one
	Times         int    // messages collected
	Lines         string // the last of them
	Priority      int    // the highest of them
}

// Collect applies a message to a digest. window is in milliseconds. A collected message isn't sent on its own.
func Collect(f Digest, window, at int64, title, body string, priority int) (next Digest, collected bool) {
	if at < f.BeganAt || at >= f.BeganAt+window {
		return Digest{ApplicationID: f.ApplicationID, BeganAt: at}, false
	}
	text := strings.TrimSpace(title)
	if first, _, _ := strings.Cut(strings.TrimSpace(body), "\n"); first != "" {
		if text != "" {
			text += ": "
		}
		text += first
	}
	lines := append(strings.Split(f.Lines, "\n"), format.Line(text, maxLine))
	if f.Times == 0 {
		lines, f.Priority = lines[1:], priority
	}
	f.Times++
	f.Priority = max(f.Priority, priority)
	f.Lines = strings.Join(lines[max(0, len(lines)-shownLines):], "\n")
	return f, true
}

// Withdrawn returns the digest after its message was withdrawn.
func (f Digest) Withdrawn() Digest { return Digest{ApplicationID: f.ApplicationID, BeganAt: f.BeganAt} }

// DigestsSeveral reports whether a message of this title collects more than one: Message has made the title, or the application, which can
// edit a message that collects only one.
func DigestsSeveral(title string) bool { return strings.HasSuffix(title, " "+more+"s") }

const more = "more message"

// Message returns the message that collects the others, as plain text.
func (f Digest) Message() (title, body string) {
	title = plural.Of(f.Times, more)
	if f.Times > shownLines {
		return title, "The last " + strconv.Itoa(shownLines) + ":\n" + f.Lines
	}
	return title, f.Lines
}
