package protocol

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/request"
)

// NtfyEvent is a message or another event in ntfy's JSON, as publishers and subscribers get it.
type NtfyEvent struct {
	ID          string          `json:"id"`
	Sequence    string          `json:"sequence_id,omitempty"` // only where it isn't the id
	Time        int64           `json:"time"`
	Expires     int64           `json:"expires,omitempty"`
	Event       string          `json:"event"` // open, keepalive, message, NtfyDelete, NtfyClear
	Topic       string          `json:"topic"`
	Title       string          `json:"title,omitempty"`
	Message     string          `json:"message,omitempty"`
	Priority    int             `json:"priority,omitempty"`
	Tags        []string        `json:"tags,omitempty"`
	Click       string          `json:"click,omitempty"`
	Icon        string          `json:"icon,omitempty"`
	Actions     []ntfyAction    `json:"actions,omitempty"`
	Attachment  *ntfyAttachment `json:"attachment,omitempty"`
	ContentType string          `json:"content_type,omitempty"`
}

type ntfyAttachment struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
	Size int64  `json:"size,omitempty"`
	URL  string `json:"url"`
}

const (
	ntfyExpiry   = 12 * time.Hour // how long ntfy.sh keeps a message
	ntfyIDLength = 12
)

// Events of a sequence.
const (
	NtfyDelete = "message_delete"
	NtfyClear  = "message_clear"
)

// NtfyID returns the id of a message as ntfy's clients know it. It is its sequence, too.
func NtfyID(id int64) string { return fmt.Sprintf("%0*d", ntfyIDLength, id) }

// NtfyNumber returns the message that an id of [NtfyID] names; 0 if it is none.
func NtfyNumber(id string) int64 {
	n, err := strconv.ParseUint(id, 10, 63)
	if err != nil || len(id) != ntfyIDLength {
		return 0
	}
	return int64(n) //nolint:gosec // 63 bits
}

// NtfySequenceOf returns the sequence of a message for subscribers.
func NtfySequenceOf(m post.View) string {
	if ntfySequence.MatchString(m.Key) && NtfyNumber(m.Key) != m.ID {
		return m.Key
	}
	return NtfyID(cmp.Or(m.Target, m.ID))
}

// NewNtfyEvent returns an event that is no message.
func NewNtfyEvent(kind, topic string, now time.Time) NtfyEvent {
	return NtfyEvent{ID: rand.Text()[:ntfyIDLength], Time: now.Unix(), Event: kind, Topic: topic}
}

var ntfySequence = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)

// ntfyExtras is the field of a message's extras that keeps what its ntfy publisher sent in a form of its own.
const ntfyExtras = "ntfy::message"

// maxNtfyKept bounds the text that is kept a second time.
const maxNtfyKept = 16 << 10

// kept is what a message keeps of a publisher's, for subscribers.
type kept struct {
	Title   string       `json:"title,omitempty"`
	Message string       `json:"message,omitempty"`
	Tags    []string     `json:"tags,omitempty"`
	Click   string       `json:"click,omitempty"`
	Icon    string       `json:"icon,omitempty"`
	Actions []ntfyAction `json:"actions,omitempty"`
	Attach  string       `json:"attach,omitempty"`
	Name    string       `json:"name,omitempty"`
}

// extras returns the extras that keep m for subscribers; nil if the message says all of it.
func (m *ntfyMessage) extras() string {
	if len(m.Tags)+len(m.actions)+len(m.Click)+len(m.Icon)+len(m.Attach) == 0 || len(m.Title)+len(m.Message) > maxNtfyKept {
		return ""
	}
	text, err := json.Marshal(map[string]kept{ntfyExtras: {m.Title, m.Message, m.Tags, m.Click, m.Icon, m.actions, m.Attach, m.Filename}})
	if err != nil || len(text) > 2*maxNtfyKept {
		return ""
	}
	return string(text)
}

// ShowNtfy returns a message as ntfy's subscribers read it, with a topic of theirs. Attachments have the address of the message's page
// below base.
func ShowNtfy(m post.View, topic, base string) NtfyEvent {
	at := post.Time(m.QueuedAt)
	if at.IsZero() {
		at = post.Time(m.AcceptedAt)
	}
	e := NtfyEvent{
		ID: NtfyID(m.ID), Time: at.Unix(), Expires: at.Add(ntfyExpiry).Unix(), Event: "message", Topic: topic, Title: m.Title,
		Message: format.Message{Body: m.Body, Note: m.Note, ContentType: m.ContentType}.Source(),
	}
	if sequence := NtfySequenceOf(m); sequence != e.ID {
		e.Sequence = sequence
	}
	if m.Priority != 0 {
		e.Priority = m.Priority + 3
	}
	switch m.ContentType {
	case format.Plain:
	case format.HTML: // which they don't show
		_, e.Message = format.Body(m.ContentType, e.Message)
	default:
		e.ContentType = "text/markdown"
	}
	var extras map[string]json.RawMessage
	var k kept
	if json.Unmarshal([]byte(m.Extras), &extras) == nil && json.Unmarshal(extras[ntfyExtras], &k) == nil {
		e.keep(k)
	}
	e.attach(m.Files(), base, m.ID)
	return e
}

// keep replaces what k has in another form.
func (e *NtfyEvent) keep(k kept) {
	e.Title, e.Tags, e.Click, e.Icon, e.Actions = k.Title, k.Tags, k.Click, k.Icon, numbered(k.Actions)
	if k.Message != "" {
		e.Message = k.Message
	}
	if k.Attach != "" {
		e.Attachment = &ntfyAttachment{Name: attachedName(k.Name, k.Attach), URL: k.Attach}
	}
}

// numbered gives actions ids, which ntfy's apps want.
func numbered(all []ntfyAction) []ntfyAction {
	for i := range all {
		all[i].ID = fmt.Sprintf("action%04d", i+1)
	}
	return all
}

// attach shows the first file: ntfy's messages have one.
func (e *NtfyEvent) attach(files []post.Attachment, base string, id int64) {
	if len(files) > 0 {
		f := files[0]
		e.Attachment = &ntfyAttachment{Name: attachedName(f.Name, ""), Type: f.Type, Size: f.Size, URL: base + "/ui/messages/" + strconv.FormatInt(id, 10)}
	}
}

// NtfyBase returns the address that a client uses for this relay.
func NtfyBase(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// replyNtfy answers with the message, or the event, in ntfy's JSON.
func replyNtfy(w http.ResponseWriter, res Result) {
	m := res.Answer.(ntfyMessage)
	var out NtfyEvent
	if len(res.Messages) == 0 {
		out = NewNtfyEvent(m.event, m.Topic, time.Now())
		out.Sequence = m.Sequence
	} else {
		accepted := res.Messages[0].View
		accepted.Key, accepted.QueuedAt = m.Sequence, post.Millis(m.due)
		out = ShowNtfy(accepted, m.Topic, m.base)
		out.Title, out.Message, out.Priority, out.ContentType = m.Title, m.shownText(), m.Priority, ""
		if m.Markdown {
			out.ContentType = "text/markdown"
		}
		out.keep(kept{Title: m.Title, Tags: m.Tags, Click: m.Click, Icon: m.Icon, Actions: m.actions, Attach: m.Attach, Name: m.Filename})
		out.attach(accepted.Files(), m.base, accepted.ID)
	}
	allowAllPages(w.Header())
	request.WriteJSON(w, http.StatusOK, out)
}

// allowAllPages lets pages of other sites read an answer, as ntfy does: the credential is never a cookie.
func allowAllPages(h http.Header) { h.Set("Access-Control-Allow-Origin", "*") }
