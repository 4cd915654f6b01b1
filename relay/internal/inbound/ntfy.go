package inbound

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark-emoji/definition"

	"slipway/relay/internal/format"
	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/markup"
	"slipway/relay/internal/refusal"
)

// Ntfy is publishing as ntfy's clients do (https://docs.ntfy.sh/publish), at the root and below /ntfy. The topic is the
// application's token; with a token in the header or in ?auth= it may have any name.
func Ntfy() Protocol {
	const topic = "{topic:[-_A-Za-z0-9]{1,64}}"
	routes := []Route{}
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		routes = append(
			routes, Route{Method: method, Path: "/ntfy"}, Route{Method: method, Path: "/ntfy/" + topic}, Route{Method: method, Path: "/"},
			Route{Method: method, Path: "/" + topic},
		)
	}
	for _, prefix := range []string{"/ntfy/", "/"} {
		routes = append(routes, Route{Method: http.MethodGet, Path: prefix + topic + "/{verb:publish|send|trigger}"})
	}
	return Protocol{Name: "ntfy", Routes: routes, Token: ntfyToken, BodyToken: true, Raw: ntfyFile, Parse: parseNtfy, Reply: replyNtfy, Fail: failNtfy}
}

// ntfyToken returns the credential in the header or in ?auth=, or the topic.
func ntfyToken(r *Request) (string, error) {
	t := tokensOf(r.Request)
	if auth := r.URL.Query().Get("auth"); auth != "" {
		header, err := base64.RawURLEncoding.DecodeString(auth)
		if err != nil {
			return "", refusal.Invalid("auth", "The parameter auth is not a header Authorization in base64url.")
		}
		t.add(Authorization(string(header)))
	}
	if t.found == "" {
		t.add(r.Path["topic"])
	}
	if t.found == "" && r.Body != nil {
		m := ntfyMessage{}
		if err := m.readJSON(r.Body); err != nil {
			return "", err
		}
		t.add(m.Topic)
	}
	return t.one()
}

// ntfyMessage is a message in ntfy's JSON. The parameters of the other forms have the same fields.
type ntfyMessage struct {
	Topic    string          `json:"topic"`
	Title    string          `json:"title"`
	Message  string          `json:"message"`
	Priority int             `json:"priority"` // 1 to 5; 0 for none
	Tags     []string        `json:"tags"`
	Click    string          `json:"click"`
	Actions  json.RawMessage `json:"actions"`
	Attach   string          `json:"attach"`
	Markdown bool            `json:"markdown"`
	Delay    string          `json:"delay"`
	Icon     string          `json:"icon"`
	Filename string          `json:"filename"`
	Sequence string          `json:"sequence_id"` // a later message with it replaces this one

	actions []ntfyAction
	due     time.Time // when to send a delayed message
	file    bool      // the body is a file
}

func (m *ntfyMessage) readJSON(body []byte) error {
	if err := json.Unmarshal(body, m); err != nil {
		return refusal.Invalid("json", "invalid request: request body must be message JSON")
	}
	return nil
}

// ntfyParameter returns a parameter, from the first header of the names, then from the query.
func ntfyParameter(r *Request, names ...string) string {
	for _, name := range names {
		if v := r.Header.Get(name); v != "" && (name != "Priority" || !strings.HasPrefix(v, "u=")) { // u= is RFC 9218's
			if decoded, err := new(mime.WordDecoder).DecodeHeader(v); err == nil {
				v = decoded
			}
			return strings.TrimSpace(v)
		}
	}
	query := r.URL.Query()
	for _, name := range names {
		for key, values := range query {
			if strings.EqualFold(key, name) {
				return strings.TrimSpace(values[0])
			}
		}
	}
	return ""
}

func isYes(s string) bool { return slices.Contains([]string{"1", "yes", "true"}, strings.ToLower(s)) }

// ntfyFile reports whether a body is a file: one that has a name, or isn't text.
func ntfyFile(r *Request, start []byte) (name string, ok bool) {
	if r.Path["topic"] == "" || r.Path["verb"] != "" {
		return "", false
	}
	name = ntfyParameter(r, "X-Filename", "Filename", "file", "f")
	if name != "" && ntfyParameter(r, "X-Attach", "Attach", "a") == "" {
		return name, true
	}
	for i := len(start) - 1; i >= max(len(start)-utf8.UTFMax, 0); i-- { // the last character may be cut
		if utf8.RuneStart(start[i]) {
			if !utf8.FullRune(start[i:]) {
				start = start[:i]
			}
			break
		}
	}
	return "", !utf8.Valid(start)
}

// ntfyMessageOf reads a message from JSON at the root, or from parameters and the body as text.
func ntfyMessageOf(r *Request) (m ntfyMessage, err error) {
	if r.Path["topic"] == "" {
		if err := m.readJSON(r.Body); err != nil {
			return m, err
		}
		m.actions, err = ntfyActionsJSON(m.Actions)
		return m, err
	}
	m.Topic = r.Path["topic"]
	m.Title = ntfyParameter(r, "X-Title", "Title", "ti", "t")
	m.Message = strings.ReplaceAll(ntfyParameter(r, "X-Message", "Message", "m"), `\n`, "\n")
	m.Click = ntfyParameter(r, "X-Click", "Click")
	m.Attach = ntfyParameter(r, "X-Attach", "Attach", "a")
	m.Filename = ntfyParameter(r, "X-Filename", "Filename", "file", "f")
	m.Sequence = ntfyParameter(r, "X-Sequence-ID", "Sequence-ID", "sid")
	m.Delay = ntfyParameter(r, "X-Delay", "Delay", "X-At", "At", "X-In", "In")
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	m.Markdown = isYes(ntfyParameter(r, "X-Markdown", "Markdown", "md")) || mediaType == "text/markdown"
	for tag := range strings.SplitSeq(ntfyParameter(r, "X-Tags", "Tags", "Tag", "ta"), ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			m.Tags = append(m.Tags, tag)
		}
	}
	if m.Priority, err = ntfyPriority(ntfyParameter(r, "X-Priority", "Priority", "prio", "p")); err != nil {
		return m, err
	}
	if m.actions, err = ntfyActions(ntfyParameter(r, "X-Actions", "Actions", "Action")); err != nil {
		return m, err
	}
	switch {
	case len(r.Files) > 0:
		m.file = true
	case len(r.Body) > 0:
		m.Message = string(r.Body)
	}
	return m, nil
}

var ntfyPriorities = map[string]int{"": 0, "1": 1, "min": 1, "2": 2, "low": 2, "3": 3, "default": 3, "4": 4, "high": 4, "5": 5, "max": 5, "urgent": 5}

func ntfyPriority(s string) (int, error) {
	p, ok := ntfyPriorities[strings.ToLower(s)]
	if !ok {
		return 0, refusal.Invalid("priority", "invalid request: priority invalid")
	}
	return p, nil
}

// ntfyEmoji returns the emoji of tags that are short codes, and the tags that are not.
func ntfyEmoji(tags []string) (emoji string, others []string) {
	for _, tag := range tags {
		if e, ok := definition.Github().Get(tag); ok && e.IsUnicode() {
			emoji += string(e.Unicode) + " "
		} else {
			others = append(others, tag)
		}
	}
	return emoji, others
}

const maxNtfyTags = 100

func parseNtfy(r *Request, _ App) (Batch, error) {
	m, err := ntfyMessageOf(r)
	switch {
	case err != nil:
		return Batch{}, err
	case m.Priority < 0 || m.Priority > 5:
		return Batch{}, refusal.Invalid("priority", "invalid request: priority invalid")
	case len(m.Tags) > maxNtfyTags:
		return Batch{}, refusal.Invalid("tags", "invalid request: too many tags")
	}
	emoji, others := ntfyEmoji(m.Tags)
	d := Draft{Title: m.Title, Message: m.Message, ContentType: format.Plain, IdempotencyKey: r.Header.Get("Idempotency-Key")}
	if m.Delay != "" {
		if d.Later, err = ntfyTime(m.Delay, r.Now); err != nil {
			return Batch{}, err
		}
		m.due = d.Later
	}
	if m.Sequence != "" {
		d.Key, d.Change = m.Sequence, intake.Update
	}
	if m.Priority != 0 {
		p := m.Priority - 3
		d.Priority = &p
	}
	if m.file && d.Message == "" {
		d.Message = r.FileText()
	}
	d.Attachments = r.Files
	if d.Message == "" {
		d.Message = "triggered"
	}
	if d.Title != "" {
		d.Title = emoji + d.Title
	} else {
		d.Message = emoji + d.Message
	}
	if m.Markdown {
		d.ContentType = ""
	}
	links := m.links()
	if len(others) > 0 {
		links = append(links, markup.Text("Tags: "+strings.Join(others, ", ")))
	}
	if len(links) > 0 {
		text := markup.Text(d.Message)
		if m.Markdown {
			text = fromMarkdown(d.Message)
		}
		d.Message, d.ContentType = markup.Paragraphs(text, markup.Lines(links...)), format.HTML
	}
	return Batch{Drafts: []Draft{d}, Answer: m}, nil
}

func (m *ntfyMessage) links() (links []string) {
	if m.Click != "" {
		links = append(links, markup.Link("", m.Click))
	}
	if m.Attach != "" {
		name := m.Filename
		if u, err := url.Parse(m.Attach); name == "" && err == nil {
			name = u.Path[strings.LastIndexByte(u.Path, '/')+1:]
		}
		links = append(links, markup.Link(name, m.Attach))
	}
	for _, a := range m.actions {
		if a.Action == "view" {
			links = append(links, markup.Link(a.Label, a.URL))
		}
	}
	return links
}

const ntfyExpiry = 12 * time.Hour // how long ntfy.sh keeps a message

// replyNtfy answers with the message in ntfy's JSON. Its id has the 12 characters that ntfy's have.
func replyNtfy(w http.ResponseWriter, res Result) {
	m, accepted := res.Answer.(ntfyMessage), res.Messages[0]
	out := map[string]any{
		"id": fmt.Sprintf("%012d", accepted.ID), "time": accepted.AcceptedAt.Unix(), "expires": accepted.AcceptedAt.Add(ntfyExpiry).Unix(),
		"event": "message", "topic": m.Topic, "message": m.Message,
	}
	if m.Message == "" {
		out["message"] = "triggered"
	}
	if !m.due.IsZero() {
		out["time"], out["expires"] = m.due.Unix(), m.due.Add(ntfyExpiry).Unix()
	}
	for name, value := range map[string]string{"title": m.Title, "click": m.Click, "icon": m.Icon} {
		if value != "" {
			out[name] = value
		}
	}
	if m.Priority != 0 {
		out["priority"] = m.Priority
	}
	if len(m.Tags) > 0 {
		out["tags"] = m.Tags
	}
	for _, a := range accepted.Attachments {
		out["attachment"] = map[string]any{"name": a.Name, "type": a.Type, "size": a.Size}
	}
	httprequest.WriteJSON(w, http.StatusOK, out)
}

var ntfyFields = map[string]int{"json": 40024, "priority": 40007, "delay": 40004, "short delay": 40005, "long delay": 40006, "topic": 40009, "actions": 40018}

// failNtfy answers with ntfy's codes.
func failNtfy(w http.ResponseWriter, err error) {
	p := httprequest.ProblemOf(err)
	code := p.ErrorCode*100 + 1
	switch refusal.KindOf(err) {
	case refusal.KindInvalid:
		if code = ntfyFields[p.Field]; code == 0 {
			code = 40000
		}
	case refusal.KindInternal, refusal.KindUnavailable:
		code = 50001
	}
	httprequest.RefusalHeaders(w, err)
	httprequest.WriteJSON(w, p.ErrorCode, map[string]any{"code": code, "http": p.ErrorCode, "error": p.Description, "link": "https://ntfy.sh/docs/publish/"})
}
