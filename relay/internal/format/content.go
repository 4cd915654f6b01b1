package format

import (
	"bytes"
	"encoding/json"
	"html"
	"strings"

	"maunium.net/go/mautrix/crypto/canonicaljson"
)

// markerKey is the field that identifies the relay's events in sync and in a room's history.
const markerKey = "io.slipway.relay"

// content is an m.room.message that is fitted into its budget.
type content struct {
	message         Message
	note            string // the last line of a body that is cut
	body, formatted string
}

// textContent is the content of an m.room.message with text. The fields are in the order of canonical JSON.
type textContent struct {
	Body      string   `json:"body"`
	Format    string   `json:"format,omitempty"`
	Formatted string   `json:"formatted_body,omitempty"`
	Relay     marker   `json:"io.slipway.relay"`
	Mentions  mentions `json:"m.mentions"`
	MsgType   string   `json:"msgtype"`
}

// json returns the content as an event has it, like canonical, but without sorting.
func (c content) json() []byte {
	out := textContent{Body: c.body, Relay: marker{c.message.Marker}, Mentions: c.message.mentions(), MsgType: c.message.msgtype()}
	if c.formatted != "" {
		out.Format, out.Formatted = "org.matrix.custom.html", c.formatted
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		panic(err) // as in canonical
	}
	if bytes.Contains(b.Bytes(), []byte(`\u2`)) || bytes.Contains(b.Bytes(), []byte(`\uf`)) { // line separators and invalid UTF-8 need no escape
		return canonical(out)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// canonical returns canonical JSON (Matrix appendix): sorted keys and minimal escapes, so its length is what the homeserver counts.
func canonical(v any) []byte {
	b, err := canonicaljson.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return b
}

// marker is the field under markerKey.
type marker struct {
	Marker string `json:"m"`
}

// msgtype returns m.notice for low priorities: clients stay silent (push rule .m.rule.suppress_notices).
func (m Message) msgtype() string {
	if m.Priority < 0 {
		return "m.notice"
	}
	return "m.text"
}

// mentions is the field m.mentions, which is always there; without it some clients search the body for names to mention.
type mentions struct {
	Room  bool     `json:"room,omitempty"`
	Users []string `json:"user_ids,omitempty"`
}

// mentions returns whom the message mentions. Mentioning the room needs a power level, so the owner is mentioned as well.
func (m Message) mentions() mentions {
	if m.Priority < 1 {
		return mentions{}
	}
	var owner []string
	if m.Mention != "" {
		owner = []string{m.Mention}
	}
	switch m.Mentions {
	case "", "auto":
		return mentions{m.Priority >= 2, owner}
	case "room":
		return mentions{true, owner}
	case "owner":
		return mentions{false, owner}
	case Nobody:
		return mentions{}
	}
	return mentions{false, strings.Fields(m.Mentions)}
}

// Nobody is whom a message mentions that only the room shows.
const Nobody = "none"

// MarkerField returns the field with the marker as JSON without braces, or "" without a marker.
func MarkerField(text string) string {
	if text == "" {
		return ""
	}
	b := canonical(map[string]any{markerKey: marker{text}})
	return string(b[1 : len(b)-1])
}

// MarkerOf returns the marker of an event's content, or "".
func MarkerOf(content []byte) string {
	if !bytes.Contains(content, []byte(markerKey)) {
		return "" // most events of a busy room
	}
	var c struct {
		Relay marker `json:"io.slipway.relay"`
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

// FileContent returns the m.room.message of a file. It mentions nobody, because the event before it did.
func FileContent(f File) []byte {
	info := map[string]any{"mimetype": f.MimeType, "size": f.Size}
	if f.Height > 0 {
		info["h"] = f.Height
	}
	if f.Width > 0 {
		info["w"] = f.Width
	}
	out := map[string]any{"body": f.Name, "filename": f.Name, "info": info, markerKey: marker{f.Marker}, "m.mentions": mentions{}, "msgtype": f.msgtype()}
	if f.Keys != "" {
		url := canonical(map[string]string{"url": f.URI})
		out["file"] = json.RawMessage("{" + f.Keys + "," + string(url[1:]))
	} else {
		out["url"] = f.URI
	}
	return canonical(out)
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

// Source returns the body below the note, in the markup of the body.
func (m Message) Source() string {
	body := cleanText(m.Body)
	if m.Note == "" {
		return body
	}
	note := strings.ReplaceAll(cleanText(m.Note), "\n", " ")
	switch m.ContentType {
	case Plain:
		return note + "\n\n" + body
	case HTML:
		return "<p>" + html.EscapeString(note) + "</p>\n" + body
	}
	return escapeMarkdown(note) + "\n\n" + body
}

// escapeMarkdown returns Markdown that shows a line as it is.
func escapeMarkdown(line string) string {
	var b strings.Builder
	for i := range len(line) {
		if strings.IndexByte("\\`*_{}[]()<>#+-.!|~&", line[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(line[i])
	}
	return b.String()
}
