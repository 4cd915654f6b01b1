package format

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// markerKey is the field that identifies the relay's events in sync and in a room's history.
const markerKey = "io.slipway.relay"

// content is an m.room.message that is fitted into its budget.
type content struct {
	message         Message
	body, formatted string
	continued       bool // an earlier event has the mentions
}

// json returns canonical JSON (Matrix appendix): sorted keys and minimal escapes, so its length is what the homeserver counts.
func (c content) json() []byte {
	b := make([]byte, 0, len(c.body)+len(c.formatted)+512)
	b = appendString(append(b, `{"body":`...), c.body)
	if c.formatted != "" {
		b = append(b, `,"format":"org.matrix.custom.html","formatted_body":`...)
		b = appendString(b, c.formatted)
	}
	b = appendMarker(append(b, ','), c.message.Marker)
	b = append(b, `,"m.mentions":`...)
	if c.continued {
		b = append(b, "{}"...)
	} else {
		b = c.message.appendMentions(b)
	}
	b = append(b, `,"msgtype":`...)
	b = appendString(b, c.message.msgtype())
	return append(b, '}')
}

// msgtype returns m.notice for low priorities: clients stay silent (push rule .m.rule.suppress_notices).
func (m Message) msgtype() string {
	if m.Priority < 0 {
		return "m.notice"
	}
	return "m.text"
}

// appendMentions always writes an object; without one some clients search the body for names to mention.
func (m Message) appendMentions(b []byte) []byte {
	room, users := m.mentions()
	b = append(b, '{')
	if room {
		b = append(b, `"room":true`...)
	}
	for i, user := range users {
		switch {
		case i > 0:
			b = append(b, ',')
		case room:
			b = append(b, `,"user_ids":[`...)
		default:
			b = append(b, `"user_ids":[`...)
		}
		b = appendString(b, user)
	}
	if len(users) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// mentions returns whom the message mentions. Mentioning the room needs a power level, so the owner is mentioned as well.
func (m Message) mentions() (room bool, users []string) {
	if m.Priority < 1 {
		return false, nil
	}
	var owner []string
	if m.Mention != "" {
		owner = []string{m.Mention}
	}
	switch m.Mentions {
	case "", "auto":
		return m.Priority >= 2, owner
	case "room":
		return true, owner
	case "owner":
		return false, owner
	case Nobody:
		return false, nil
	}
	return false, strings.Fields(m.Mentions)
}

// Nobody is whom a message mentions that only the room shows.
const Nobody = "none"

func appendMarker(b []byte, marker string) []byte {
	return append(appendString(append(b, `"`+markerKey+`":{"m":`...), marker), '}')
}

// MarkerField returns the field with the marker as JSON without braces, or "" without a marker.
func MarkerField(marker string) string {
	if marker == "" {
		return ""
	}
	return string(appendMarker(nil, marker))
}

// MarkerOf returns the marker of an event's content, or "".
func MarkerOf(content []byte) string {
	if !bytes.Contains(content, []byte(markerKey)) {
		return "" // most events of a busy room
	}
	var c struct {
		Relay struct {
			Marker string `json:"m"`
		} `json:"io.slipway.relay"`
	}
	if json.Unmarshal(content, &c) != nil {
		return ""
	}
	return c.Relay.Marker
}

// File is a file on the homeserver.
type File struct {
	Name          string // as a person sees it
	URI           string // mxc://…
	MimeType      string
	Size          int64 // of the content in bytes
	Width, Height int   // of a picture; 0 if unknown
	Marker        string
	Keys          string // of an encrypted file: the fields of its EncryptedFile except the URI, as JSON without braces
}

// msgtype returns how clients show the file. Many show SVG only as a file.
func (f File) msgtype() string {
	kind, _, _ := strings.Cut(f.MimeType, "/")
	switch {
	case kind == "image" && !strings.HasPrefix(f.MimeType, "image/svg"), kind == "audio", kind == "video":
		return "m." + kind
	}
	return "m.file"
}

// FileContent returns the m.room.message of a file. It mentions nobody, because the first event did.
func FileContent(f File) []byte {
	b := appendString([]byte(`{"body":`), f.Name)
	b = appendString(append(b, `,"filename":`...), f.Name)
	b = append(b, `,"info":{`...)
	if f.Height > 0 {
		b = append(strconv.AppendInt(append(b, `"h":`...), int64(f.Height), 10), ',')
	}
	b = appendString(append(b, `"mimetype":`...), f.MimeType)
	b = append(b, `,"size":`...)
	b = strconv.AppendInt(b, f.Size, 10)
	if f.Width > 0 {
		b = strconv.AppendInt(append(b, `,"w":`...), int64(f.Width), 10)
	}
	b = appendMarker(append(b, "},"...), f.Marker)
	b = appendString(append(b, `,"m.mentions":{},"msgtype":`...), f.msgtype())
	b = append(b, ',')
	if f.Keys != "" {
		b = append(append(append(b, `"file":{`...), f.Keys...), `,"url":`...)
		return append(appendString(b, f.URI), "}}"...)
	}
	return append(appendString(append(b, `"url":`...), f.URI), '}')
}

const hex = "0123456789abcdef"

// appendString appends s as a canonical JSON string.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		b = appendEscape(b, c)
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\t':
		return append(b, '\\', 't')
	case '\r':
		return append(b, '\\', 'r')
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// jsonLen returns the length of valid UTF-8 as a JSON string.
func jsonLen(s string) int {
	n := 2
	for i := range len(s) {
		n += escapedLen(s[i])
	}
	return n
}

func escapedLen(c byte) int {
	switch {
	case c == '"', c == '\\', c == '\n', c == '\t', c == '\r', c == '\b', c == '\f':
		return 2
	case c < ' ':
		return 6
	}
	return 1
}

// cutJSON cuts s so that s and note together have at most limit bytes as a JSON string.
func cutJSON(s string, limit int, note string) string {
	limit -= jsonLen(note)
	n, i := 0, 0
	for i < len(s) && n+escapedLen(s[i]) <= limit {
		n += escapedLen(s[i])
		i++
	}
	i = runeStart(s, i)
	return s[:lineEnd(s, i)] + note
}
