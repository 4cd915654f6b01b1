package protocol

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// submission is a body of POST /message.
type submission struct {
	tokens // of the body
	draft  post.Draft
	worded bool     // the priority is a word, which means the same on each scale
	links  []string // attachments that are addresses

	application int64 // appid, 0 for none
}

// submissionOf reads the fields of a request. Only a request without JSON may put them into the query, where Gotify's
// and PushBits' forms may.
func submissionOf(r *Request) (*submission, error) {
	if r.fields != nil {
		return r.fields, nil
	}
	s := &submission{}
	if r.URL.RawQuery != "" && !request.IsJSON(r.Body) {
		query := r.URL.Query()
		query.Del("token")
		query.Del("extras")
		if err := request.EachOf(query, func(name string, v request.Value) error { return s.set(r, name, v) }); err != nil {
			return nil, err
		}
	}
	text, mediaType, ok, err := request.Text(r.Header.Get("Content-Type"), r.Body)
	if ok && err == nil {
		s.draft.Body, s.draft.ContentType = text, mediaType
	} else if err == nil {
		err = request.Each(r.Header.Get("Content-Type"), r.Body, func(name string, v request.Value) error {
			return s.set(r, strings.ToLower(name), v) // Gotify and PushBits take {"Message": …} too
		})
	}
	if err != nil {
		return nil, err
	}
	r.fields = s
	return s, nil
}

// set stores a field. Unknown fields and those that Gotify's clients also send (id, date) are ignored.
func (s *submission) set(r *Request, name string, v request.Value) (err error) {
	if _, isFile := v.File(); isFile {
		return nil // it is one of the request's files
	}
	switch name {
	case "token":
		var token string
		err = setText(&token, name, v)
		s.add(token)
	case "appid": // an application's token needs none, so any value passes
		if id, err := v.Integer(name); err == nil && id != nil && *id > 0 {
			s.application = int64(*id)
		}
	case "message":
		err = setWords(&s.draft.Body, name, v)
	case "title":
		err = setWords(&s.draft.Title, name, v)
	case "priority":
		s.draft.Priority, s.worded, err = Priority(name, v)
	case "key":
		err = setText(&s.draft.Key, name, v)
	case "thread":
		err = setText(&s.draft.Thread, name, v)
	case "retry":
		err = setSeconds(&s.draft.Retry, name, v)
	case "expire":
		err = setSeconds(&s.draft.Expire, name, v)
	case "resolved":
		var resolved *bool
		if resolved, err = v.Boolean(name); resolved != nil && *resolved {
			s.draft.Change = post.Resolve
		}
	case "extras":
		var extras json.RawMessage
		extras, err = v.Object(name)
		s.draft.Extras = string(extras)
	case "attachments", "attachment", "attach":
		var links []string
		links, err = r.AddFiles(v)
		s.links = append(s.links, links...)
	}
	return err
}

// Priority parses a priority, a number or a word, and reports whether it is a word. nil stands for none.
func Priority(name string, v request.Value) (p *int, worded bool, err error) {
	if text, err := v.Text(name); err == nil && text != nil {
		if p, ok := post.ParsePriority(*text); ok {
			return &p, true, nil
		}
	}
	if p, err = v.Integer(name); err != nil {
		err = refusal.Invalid(name, "The priority must be min, low, normal, high or max, or a whole number.")
	}
	return p, false, err
}

// setSeconds reads a number of seconds.
func setSeconds(to *time.Duration, name string, v request.Value) error {
	n, err := v.Integer(name)
	if err == nil && n != nil {
		*to = time.Duration(min(max(*n, -1), maxSeconds)) * time.Second
	}
	return err
}

// maxSeconds is more than any time that a sender may give.
const maxSeconds = 1 << 20

func setText(to *string, name string, v request.Value) error {
	text, err := v.Text(name)
	if err == nil && text != nil {
		*to = *text
	}
	return err
}

// setWords is setText for what people read: Alertmanager makes numbers, lists and objects of texts that look so.
func setWords(to *string, name string, v request.Value) error {
	text, err := v.Words(name)
	if err == nil && text != nil {
		*to = *text
	}
	return err
}

// mediaType returns the format that the sender names, in Gotify's extras unless the body is a bare text.
func (s *submission) mediaType() string {
	if len(s.draft.Extras) == 0 {
		return s.draft.ContentType
	}
	var extras struct {
		Display struct {
			ContentType string `json:"contentType"`
		} `json:"client::display"`
	}
	if json.Unmarshal([]byte(s.draft.Extras), &extras) != nil {
		return ""
	}
	return extras.Display.ContentType
}

var errNoMessage = refusal.Invalid("message", `A message is required: send JSON such as {"message": "text"}, a form with the field message, or the text itself with "Content-Type: text/plain".`)

// parsed completes the draft with the format and priority that the protocol has decided.
func (s *submission) parsed(r *Request, mediaType string, priority *int) (Parsed, error) {
	wait, err := waitOf(r)
	if err != nil {
		return Parsed{}, err
	}
	d := s.draft
	if strings.TrimSpace(d.Body) == "" {
		return Parsed{}, errNoMessage
	}
	if d.Key != "" && d.Change == post.Create {
		d.Change = post.Update
	}
	if d.Priority != priority {
		d.GotifyScale = gotifyScale(d.Priority)
	}
	d.ContentType, d.Priority = mediaType, priority
	d.Files = r.Files
	AddLinks(&d, s.links)
	AddLinks(&d, notificationLinks(d.Extras))
	return Parsed{Wait: wait, Drafts: []post.Draft{d}}, nil
}

// Message is the JSON of a message, which every answer about one begins with.
type Message struct {
	ID       int64           `json:"id"`
	AppID    int64           `json:"appid"`
	Title    string          `json:"title"`
	Message  string          `json:"message"`
	Priority int             `json:"priority"`
	Extras   json.RawMessage `json:"extras,omitempty"`

	Attachments []Attachment `json:"attachments,omitempty"`

	Date      time.Time  `json:"date"`
	Status    post.State `json:"status"`
	EventID   *string    `json:"event_id"`
	StatusURL string     `json:"status_url"`
}

// Attachment is the JSON of an attachment.
type Attachment struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

// Show returns the JSON of a message.
func Show(m post.View) Message {
	out := Message{
		ID: m.ID, AppID: m.ApplicationID, Title: m.Title, Message: m.Body, Priority: m.Priority, Extras: json.RawMessage(m.Extras),
		Date: post.Time(m.AcceptedAt), Status: m.State, StatusURL: "/message/" + strconv.FormatInt(m.ID, 10),
	}
	for _, a := range m.Files() {
		out.Attachments = append(out.Attachments, Attachment{a.Name, a.Type, a.Size})
	}
	if m.EventID != "" {
		out.EventID = &m.EventID
	}
	return out
}

// reply is the answer that clients of this relay, of Gotify and of PushBits all read: the id a number, the status
// exactly 200.
type reply struct {
	Message
	Success   bool   `json:"success"`
	LastError string `json:"last_error,omitempty"`
}

// replyMessage answers for a single message.
func replyMessage(w http.ResponseWriter, res Result) {
	m := res.Messages[0]
	m.Extras = res.Drafts[0].Extras
	out := reply{Success: !m.State.Dead(), Message: Show(m.View)}
	if m.State != post.StateSent {
		out.LastError = m.Error
	}
	if m.Replay && res.Drafts[0].IdempotencyKey != "" { // an alert's report that changes nothing is a replay without a key
		w.Header().Set("Idempotent-Replay", "true")
	}
	request.WriteJSON(w, http.StatusOK, &out)
}

// waitOf returns how long the sender waits for the delivery: ?wait=5s, or Prefer: wait=5 (RFC 7240).
func waitOf(r *Request) (time.Duration, error) {
	text := ""
	if strings.Contains(r.URL.RawQuery, "wait") {
		text = r.URL.Query().Get("wait")
	}
	if text == "" {
		text = preferWait(r.Header["Prefer"])
	}
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if n, whole := strconv.Atoi(text); whole == nil {
		d, err = time.Duration(min(n, 3600))*time.Second, nil
	}
	if err != nil || d < 0 {
		return 0, refusal.Invalid("wait", "The time to wait must be a duration such as 5s.")
	}
	return d, nil
}

func preferWait(headers []string) string {
	for _, h := range headers {
		for _, preference := range strings.Split(h, ",") {
			name, v, _ := strings.Cut(strings.TrimSpace(preference), "=")
			if strings.EqualFold(strings.TrimSpace(name), "wait") {
				return strings.Trim(strings.TrimSpace(v), `"`)
			}
		}
	}
	return ""
}
