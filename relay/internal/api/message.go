package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/inbound"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/message"
	"slipway/relay/internal/refusal"
)

// submission is what a sender posts.
type submission struct {
	tokens
	title, message string
	priority       *int
	extras         json.RawMessage
	format         string // of a body that is the message itself
	native         bool   // the token was in the body
}

// set takes a field. Those that Gotify's clients send along (id, appid, date)
// and unknown ones are passed over.
func (s *submission) set(name string, v value) (err error) {
	switch name {
	case "token":
		err = s.setToken(v)
	case "message":
		err = setText(&s.message, name, v)
	case "title":
		err = setText(&s.title, name, v)
	case "priority":
		s.priority, err = v.integer(name)
	case "extras":
		s.extras, err = v.object(name)
	}
	return err
}

func (s *submission) setToken(v value) error {
	text, err := v.text("token")
	if err != nil || text == nil {
		return err
	}
	s.native = s.native || *text != ""
	s.add(*text)
	return nil
}

func setText(to *string, name string, v value) error {
	text, err := v.text(name)
	if err == nil && text != nil {
		*to = *text
	}
	return err
}

// read takes everything that a request says. Only a request without JSON may
// put the message into the query, where Gotify's and PushBits' forms may.
func (s *submission) read(r *http.Request, body []byte) error {
	s.fromHeaders(r)
	query := r.URL.RawQuery != "" && !looksLikeJSON(body)
	if query {
		if err := eachValue(r.URL.Query(), s.setFromQuery); err != nil {
			return err
		}
	}
	text, format, ok, err := textOf(r, body)
	if ok || err != nil {
		s.message, s.format = text, format
		return err
	}
	return eachOf(r, body, s.set)
}

func (s *submission) setFromQuery(name string, v value) error {
	if name == "token" || name == "extras" {
		return nil
	}
	return s.set(name, v)
}

// contentType is what the request says of the message's format, in Gotify's extras if it is not a bare text.
func (s *submission) contentType() string {
	if len(s.extras) == 0 {
		return s.format
	}
	var extras struct {
		Display struct {
			ContentType string `json:"contentType"`
		} `json:"client::display"`
	}
	if json.Unmarshal(s.extras, &extras) != nil {
		return ""
	}
	return extras.Display.ContentType
}

// source tells how the message came in.
func (s *submission) source() string {
	if s.native {
		return "api"
	}
	return "gotify"
}

func (a *API) postMessage(w http.ResponseWriter, r *http.Request) error {
	wait, err := a.waitOf(r)
	if err != nil {
		return err
	}
	var s submission
	body, err := a.readBody(r)
	if err != nil {
		return err
	}
	err = s.read(r, body.bytes)
	body.release()
	if err != nil {
		return err
	}
	accepted, err := a.accept(r, &s)
	switch {
	case err != nil && refusal.KindOf(err) == refusal.KindInvalid && strings.TrimSpace(s.message) == "":
		return errNoMessage
	case err != nil:
		return a.slowDown(r, err)
	}
	outcome := message.Message{State: accepted.State, EventID: accepted.EventID}
	if wait > 0 {
		v := account.Principal{ApplicationID: accepted.ApplicationID}
		if m, err := a.service.Wait(r.Context(), v, accepted.ID, wait); err == nil {
			outcome = m
		}
	}
	a.answerAccepted(w, &accepted, &s, &outcome)
	return nil
}

var errNoMessage = invalid("message", `A message is required: send JSON such as {"message": "text"}, a form with the field message, or the text itself with "Content-Type: text/plain".`)

func (a *API) accept(r *http.Request, s *submission) (intake.Accepted, error) {
	token, err := s.one()
	if err != nil {
		return intake.Accepted{}, err
	}
	return a.service.Accept(r.Context(), intake.Request{
		Token: token, Title: s.title, Message: s.message, ContentType: s.contentType(), PlainProtocol: s.gotify && !s.native, Priority: s.priority, Translated: inbound.GotifyPriority(s.priority), NativeScale: s.native,
		Extras: s.extras, IdempotencyKey: r.Header.Get("Idempotency-Key"), Source: s.source(),
	})
}

// acceptedMessage is the answer that clients of this relay, of Gotify and of
// PushBits all read: the id a number, the status exactly 200.
type acceptedMessage struct {
	ID        int64           `json:"id"`
	Success   bool            `json:"success"`
	AppID     int64           `json:"appid"`
	Message   string          `json:"message"`
	Title     string          `json:"title"`
	Priority  int             `json:"priority"`
	Extras    json.RawMessage `json:"extras,omitempty"`
	Date      time.Time       `json:"date"`
	Status    message.State   `json:"status"`
	EventID   *string         `json:"event_id"`
	LastError string          `json:"last_error,omitempty"`
	StatusURL string          `json:"status_url"`
	Events    int             `json:"events"`         // that it is sent as
	File      bool            `json:"file,omitempty"` // its full text follows
}

func (a *API) answerAccepted(w http.ResponseWriter, m *intake.Accepted, s *submission, now *message.Message) {
	out := acceptedMessage{
		ID: m.ID, Success: now.State != message.StateDead, AppID: m.ApplicationID, Message: m.Message, Title: m.Title, Priority: m.Priority, Extras: s.extras,
		Date: m.AcceptedAt, Status: now.State, EventID: textOrNull(now.EventID), StatusURL: "/message/" + strconv.FormatInt(m.ID, 10),
	}
	out.Events, out.File = a.service.Shape(message.Message{Title: m.Title, Body: m.Message, ContentType: m.ContentType, Priority: m.Priority})
	if now.State != message.StateSent {
		out.LastError = now.Error
	}
	if m.Replay {
		w.Header().Set("Idempotent-Replay", "true")
	}
	writeJSON(w, http.StatusOK, &out)
}

// waitOf is how long the sender wants to wait for the delivery: ?wait=5s, or
// Prefer: wait=5 (RFC 7240), at most what the relay allows.
func (a *API) waitOf(r *http.Request) (time.Duration, error) {
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
		return 0, invalid("wait", "The time to wait must be a duration such as 5s.")
	}
	return min(d, a.o.MaxWait), nil
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
