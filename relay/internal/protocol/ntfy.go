package protocol

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark-emoji/definition"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// NtfyName is the name of the protocol [Ntfy].
const NtfyName = "ntfy"

// Ntfy is publishing as ntfy's clients do (https://docs.ntfy.sh/publish), at the root and below /ntfy. The topic is the
// application's token; with a token in the header or in ?auth= it may have any name.
func Ntfy() Protocol {
	const topic, sequence = "{topic:[-_A-Za-z0-9]+}", "/{sequence:[-_A-Za-z0-9]+}" // {1,64} in each route would take a MiB
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	routes := []Route{{Method: post, Path: "/ntfy"}, {Method: put, Path: "/ntfy"}, {Method: post, Path: "/"}, {Method: put, Path: "/"}}
	for _, at := range []string{"/ntfy/" + topic, "/" + topic} {
		routes = append(
			routes, Route{Method: post, Path: at}, Route{Method: put, Path: at}, Route{Method: get, Path: at + "/{verb:publish|send|trigger}"},
			Route{Method: post, Path: at + sequence}, Route{Method: put, Path: at + sequence}, Route{Method: del, Path: at + sequence},
			Route{Method: put, Path: at + sequence + "/{mark:clear|read}"},
		)
	}
	return Protocol{Name: NtfyName, Routes: routes, Token: ntfyToken, BodyToken: true, Raw: ntfyFile, Parse: parseNtfy, Reply: replyNtfy, Fail: FailNtfy}
}

// NtfyCredential returns the token in the headers or in ?auth=; "" if there is none.
func NtfyCredential(r *http.Request) (string, error) {
	t, err := ntfyTokens(r)
	if err != nil {
		return "", err
	}
	return t.one()
}

func ntfyTokens(r *http.Request) (*tokens, error) {
	t := tokensOf(r)
	if auth := r.URL.Query().Get("auth"); auth != "" {
		header, err := base64.RawURLEncoding.DecodeString(auth)
		if err != nil {
			return nil, refusal.Invalid("auth", "The parameter auth is not a header Authorization in base64url.")
		}
		t.add(Authorization(string(header)))
	}
	return t, nil
}

// CheckNtfyTopics refuses topics that are too long.
func CheckNtfyTopics(topics ...string) error {
	if slices.ContainsFunc(topics, func(t string) bool { return len(t) > 64 }) {
		return refusal.Invalid("topic", "invalid request: topic invalid")
	}
	return nil
}

// ntfyToken returns the credential in the header or in ?auth=, or the topic.
func ntfyToken(r *Request) (string, error) {
	t, err := ntfyTokens(r.Request)
	if err != nil {
		return "", err
	}
	if err := CheckNtfyTopics(r.Path["topic"]); err != nil {
		return "", err
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
	event   string    // what is answered if no message is published
	base    string    // the relay's address, as the publisher knows it
}

func (m *ntfyMessage) readJSON(body []byte) error {
	if err := request.Unmarshal(body, m); err != nil {
		return refusal.Invalid("json", "invalid request: request body must be valid JSON")
	}
	return nil
}

// NtfyParameter returns a parameter, from the first header of the names, then from the query.
func NtfyParameter(r *http.Request, names ...string) string {
	for _, name := range names {
		if v := r.Header.Get(name); v != "" && (name != "Priority" || !strings.HasPrefix(v, "u=")) { // u= is RFC 9218's
			if !utf8.ValidString(v) { // Python's libraries encode in Latin-1 what it has
				v = string(request.FromLatin1([]byte(v)))
			}
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

// IsYes reports whether a parameter is a spelling of true that ntfy takes.
func IsYes(s string) bool { return slices.Contains([]string{"1", "yes", "true"}, strings.ToLower(s)) }

// ntfyFile reports whether a body is a file: one that has a name, or isn't text.
func ntfyFile(r *Request, start []byte) (name string, ok bool) {
	if r.Path["topic"] == "" || r.Path["verb"] != "" {
		return "", false
	}
	name = NtfyParameter(r.Request, "X-Filename", "Filename", "file", "f")
	if name != "" && NtfyParameter(r.Request, "X-Attach", "Attach", "a") == "" {
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
	m.Title = NtfyParameter(r.Request, "X-Title", "Title", "ti", "t")
	m.Message = strings.ReplaceAll(NtfyParameter(r.Request, "X-Message", "Message", "m"), `\n`, "\n")
	m.Click = NtfyParameter(r.Request, "X-Click", "Click")
	m.Attach = NtfyParameter(r.Request, "X-Attach", "Attach", "a")
	m.Filename = NtfyParameter(r.Request, "X-Filename", "Filename", "file", "f")
	if m.Sequence = r.Path["sequence"]; m.Sequence == "" {
		m.Sequence = NtfyParameter(r.Request, "X-Sequence-ID", "Sequence-ID", "sid")
	}
	m.Icon = NtfyParameter(r.Request, "X-Icon", "Icon")
	m.Delay = NtfyParameter(r.Request, "X-Delay", "Delay", "X-At", "At", "X-In", "In")
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	m.Markdown = IsYes(NtfyParameter(r.Request, "X-Markdown", "Markdown", "md")) || mediaType == "text/markdown"
	for tag := range strings.SplitSeq(NtfyParameter(r.Request, "X-Tags", "Tags", "Tag", "ta"), ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			m.Tags = append(m.Tags, tag)
		}
	}
	if m.Priority, err = NtfyPriority(NtfyParameter(r.Request, "X-Priority", "Priority", "prio", "p")); err != nil {
		return m, err
	}
	if m.actions, err = ntfyActions(NtfyParameter(r.Request, "X-Actions", "Actions", "Action")); err != nil {
		return m, err
	}
	template := NtfyParameter(r.Request, "X-Template", "Template", "tpl")
	if slices.Contains([]string{"0", "no", "false"}, strings.ToLower(template)) {
		template = ""
	}
	switch {
	case len(r.Files) > 0:
		m.file = true
	case template != "" && r.Path["verb"] == "":
		return m, m.useTemplate(template, r.Body)
	case len(bytes.TrimSpace(r.Body)) > 0:
		m.Message = format.TrimLines(string(r.Body))
	}
	return m, nil
}

var ntfyPriorities = map[string]int{"": 0, "1": 1, "min": 1, "2": 2, "low": 2, "3": 3, "default": 3, "4": 4, "high": 4, "5": 5, "max": 5, "urgent": 5}

// NtfyPriority reads a priority, a number or its name; 0 for none.
func NtfyPriority(s string) (int, error) {
	p, ok := ntfyPriorities[strings.ToLower(s)]
	if !ok {
		return 0, refusal.Invalid("priority", "invalid priority parameter")
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

// shownText is the text of the message in an answer.
func (m *ntfyMessage) shownText() string {
	if m.Message == "" {
		return "triggered"
	}
	return m.Message
}

// ntfyChange returns what a request does that publishes nothing; ok is false if it does.
func ntfyChange(r *Request) (p Parsed, ok bool) {
	m := ntfyMessage{Topic: r.Path["topic"], Sequence: r.Path["sequence"]}
	switch {
	case r.Method == http.MethodDelete:
		m.event = NtfyDelete
	case r.Path["mark"] != "":
		m.event = NtfyClear
	default:
		return p, false
	}
	return Parsed{Answer: m, Sequence: &Sequence{Key: m.Sequence, Message: NtfyNumber(m.Sequence), Withdraw: r.Method == http.MethodDelete}}, true
}

func checkNtfySequence(id string) error {
	if !ntfySequence.MatchString(id) {
		return refusal.Invalid("sequence", "invalid request: sequence ID invalid")
	}
	return nil
}

func parseNtfy(r *Request, _ App) (Parsed, error) {
	if b, ok := ntfyChange(r); ok {
		return b, checkNtfySequence(b.Sequence.Key)
	}
	m, err := ntfyMessageOf(r)
	m.base = NtfyBase(r.Request)
	switch {
	case err != nil:
		return Parsed{}, err
	case m.Priority < 0 || m.Priority > 5:
		return Parsed{}, refusal.Invalid("priority", "invalid priority parameter")
	case m.Sequence != "" && checkNtfySequence(m.Sequence) != nil:
		return Parsed{}, checkNtfySequence(m.Sequence)
	case m.Attach != "" && !format.IsWeb(m.Attach):
		return Parsed{}, refusal.Invalid("attach", "invalid request: attachment URL is invalid")
	case m.Icon != "" && !format.IsWeb(m.Icon):
		return Parsed{}, refusal.Invalid("icon", "invalid request: icon URL is invalid")
	case len(m.Tags) > maxNtfyTags:
		return Parsed{}, refusal.Invalid("tags", "invalid request: too many tags")
	}
	if m.Message == "" && m.Attach != "" {
		m.Message = "You received a file: " + attachedName(m.Filename, m.Attach)
	}
	emoji, others := ntfyEmoji(m.Tags)
	d := post.Draft{Content: post.Content{Title: m.Title, Body: m.Message, ContentType: format.Plain}}
	if m.Delay != "" {
		if d.Later, err = ntfyTime(m.Delay, r.Now); err != nil {
			return Parsed{}, err
		}
		m.due = d.Later
	}
	if m.Sequence != "" {
		d.Key, d.Change, d.Names = m.Sequence, post.Update, NtfyNumber(m.Sequence)
	}
	if m.Priority != 0 {
		p := m.Priority - 3
		d.Priority = &p
	}
	if m.file && d.Body == "" {
		d.Body = r.FileText()
	}
	d.Files, d.Extras = r.Files, m.extras()
	if d.Body == "" {
		d.Body = "triggered"
	}
	if d.Title != "" {
		d.Title = emoji + d.Title
	} else {
		d.Body = emoji + d.Body
	}
	if m.Markdown {
		d.ContentType = ""
	}
	links := m.links()
	if len(others) > 0 {
		links = append(links, format.Text("Tags: "+strings.Join(others, ", ")))
	}
	if len(links) > 0 {
		text := format.Text(d.Body)
		if m.Markdown {
			text = fromMarkdown(d.Body)
		}
		d.Body, d.ContentType = format.Paragraphs(text, format.Lines(links...)), format.HTML
	}
	return Parsed{Drafts: []post.Draft{d}, Answer: m}, nil
}

func (m *ntfyMessage) links() (links []string) {
	if m.Click != "" {
		links = append(links, format.Link("", m.Click))
	}
	if m.Attach != "" {
		links = append(links, format.Link(attachedName(m.Filename, m.Attach), m.Attach))
	}
	for _, a := range m.actions {
		if a.Action == "view" {
			links = append(links, format.Link(a.Label, a.URL))
		}
	}
	return links
}

// attachedName returns the name of an attachment, in place of a missing one the last part of its address.
func attachedName(name, address string) string {
	if u, err := url.Parse(address); name == "" && err == nil {
		name = u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	}
	return cmp.Or(name, "attachment")
}

var ntfyFields = map[string]int{
	"json": 40024, "priority": 40007, "delay": 40004, "short delay": 40005, "long delay": 40006, "topic": 40009, "actions": 40018,
	"since": 40008, "attach": 40013, "icon": 40021, "sequence": 40049, "websocket": 40016,
	"template body": 40042, "template": 40043, "template call": 40044, "template execution": 40045, "template name": 40047,
}

// FailNtfy answers with ntfy's codes.
func FailNtfy(w http.ResponseWriter, err error) {
	p := request.ProblemOf(err)
	code := p.ErrorCode*100 + 1
	switch refusal.KindOf(err) {
	case refusal.KindInvalid:
		if code = ntfyFields[p.Field]; code == 0 {
			code = 40000
		}
	case refusal.KindInternal, refusal.KindUnavailable:
		code = 50001
	}
	request.RefusalHeaders(w, err)
	allowAllPages(w.Header())
	request.WriteJSON(w, p.ErrorCode, map[string]any{"code": code, "http": p.ErrorCode, "error": p.Description, "link": "https://ntfy.sh/docs/publish/"})
}
