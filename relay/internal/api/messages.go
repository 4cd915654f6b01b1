package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/service"
	ui "slipway/shared/web"
)

// messageJSON is the JSON of a message with its outcome.
type messageJSON struct {
	protocol.Message
	Application string     `json:"application"`
	ContentType string     `json:"content_type"`
	Attempts    int        `json:"attempts"`
	NextAttempt *time.Time `json:"next_attempt_at"`
	LastError   *string    `json:"last_error"`
	ErrorCode   *string    `json:"last_error_code"`
	RoomID      string     `json:"room_id"`
	SentAt      *time.Time `json:"sent_at"`
	Removal     string     `json:"removal,omitempty"` // "pending" until the room has changed
	File        bool       `json:"file,omitempty"`    // has the full text of a message too long for one event

	Alert *alertState `json:"alert,omitempty"` // in the answer for a single message, and in the list of alerts
}

func showMessage(m post.View) messageJSON {
	d := messageJSON{
		Message: protocol.Show(m), Application: m.ApplicationName, ContentType: cmp.Or(m.ContentType, "text/markdown"), Attempts: m.Attempts,
		NextAttempt: timeOrNull(m.NextAt), LastError: textOrNull(m.Error), ErrorCode: textOrNull(m.Code),
		RoomID: cmp.Or(m.RoomID, m.Address), SentAt: timeOrNull(post.Millis(m.SentAt())), File: m.Cut,
	}
	if m.Removing {
		d.Removal = "pending"
	}
	return d
}

// timeOrNull returns a stored time, nil for 0.
func timeOrNull(millis int64) *time.Time {
	if millis == 0 {
		return nil
	}
	t := post.Time(millis)
	return &t
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// idOf returns the ID in the path; 0 if it is too large.
func idOf(r *http.Request) int64 {
	id, err := strconv.ParseInt(mux.Vars(r)["id"], 10, 64)
	if err != nil {
		return 0
	}
	return id
}

func (a *API) getMessage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	m, err := a.service.Message(r.Context(), v, idOf(r))
	if err != nil {
		return err
	}
	out := showMessage(m)
	state, err := a.service.Alert(r.Context(), v, m.ID)
	if err != nil {
		return err
	}
	if state != nil {
		out.Alert = showAlert(state)
	}
	return answer(w, out, nil)
}

func (a *API) deleteMessage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	m, err := a.service.Cancel(r.Context(), v, idOf(r))
	return answer(w, showMessage(m), err)
}

func (a *API) redeliverMessage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	m, err := a.service.Redeliver(r.Context(), v, idOf(r))
	return answer(w, showMessage(m), err)
}

// bulkAnswer is the result of changing all messages that a filter selects.
type bulkAnswer struct {
	Success bool `json:"success"`
	Done    int  `json:"done"`
	More    bool `json:"more"` // messages that the next request changes
}

// bulk changes the messages that the query selects.
func bulk(change func(context.Context, account.Principal, service.Filter) (service.Bulk, error)) userHandler {
	return func(w http.ResponseWriter, r *http.Request, v account.Principal) error {
		filter, err := filterOf(r)
		if err != nil {
			return err
		}
		b, err := change(r.Context(), v, filter)
		if err != nil {
			return err
		}
		request.WriteJSON(w, http.StatusOK, bulkAnswer{true, b.Done, b.More})
		return nil
	}
}

// messageList is a page, newest first, in the shape of Gotify's.
type messageList struct {
	Messages []messageJSON `json:"messages"`
	Paging   paging        `json:"paging"`
}

type paging struct {
	Size  int     `json:"size"`
	Limit int     `json:"limit"`
	Since int64   `json:"since"` // the next page's ?before=; 0 at the end
	Next  *string `json:"next"`
}

// pagingOf describes a page of a list that goes on below the ID next; 0 at the end.
func pagingOf(r *http.Request, size, limit int, next int64) paging {
	p := paging{Size: size, Limit: limit, Since: next}
	if next != 0 {
		q := r.URL.Query()
		q.Del("token")
		if _, numeric := strconv.ParseInt(q.Get("since"), 10, 64); numeric == nil {
			q.Del("since")
		}
		q.Set("before", strconv.FormatInt(next, 10))
		address := r.URL.Path + "?" + q.Encode()
		p.Next = &address
	}
	return p
}

// pageOf reads which page of a list without filters is asked for.
func pageOf(q url.Values) (before int64, limit int, err error) {
	var f service.Filter
	f.Limit = defaultPage
	for _, name := range []string{"before", "limit"} {
		if text := q.Get(name); text != "" {
			if err := setFilter(&f, name, text); err != nil {
				return 0, 0, err
			}
		}
	}
	return f.Before, f.Limit, nil
}

// defaultPage is the number of entries of a page, unless the request says.
const defaultPage = 50

func (a *API) listMessages(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	filter, err := filterOf(r)
	if err != nil {
		return err
	}
	page, err := a.service.Messages(r.Context(), v, filter)
	if err != nil {
		return err
	}
	return answer(w, messageList{shown(page.Messages, showMessage), pagingOf(r, len(page.Messages), filter.Limit, page.Next)}, nil)
}

// filterOf reads the query of a list. ?since= is Gotify's word for ?before=
// when it is a number.
func filterOf(r *http.Request) (f service.Filter, err error) {
	f.Limit = defaultPage
	for name, values := range r.URL.Query() {
		for _, text := range values {
			if text == "" {
				continue
			}
			if err := setFilter(&f, name, text); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

func setFilter(f *service.Filter, name, text string) (err error) {
	switch name {
	case "state", "status":
		err = setStates(f, name, text)
	case "appid", "application":
		f.ApplicationID, err = strconv.ParseInt(text, 10, 64)
	case "q":
		f.Text = text
	case "before":
		f.Before, err = strconv.ParseInt(text, 10, 64)
	case "limit":
		f.Limit, err = strconv.Atoi(text)
		if f.Limit < 1 || f.Limit > service.MaxPage {
			return refusal.Invalid(name, fmt.Sprintf("A page has 1 to %d entries.", service.MaxPage))
		}
	case "since":
		if n, numeric := strconv.ParseInt(text, 10, 64); numeric == nil {
			f.Before = n
			return nil
		}
		f.Since, err = time.Parse(time.RFC3339, text)
	case "until":
		f.Until, err = time.Parse(time.RFC3339, text)
	case "token":
	default:
		return refusal.Invalid(name, fmt.Sprintf("There is no filter %q.", name))
	}
	if err != nil && refusal.KindOf(err) != refusal.KindInvalid {
		return refusal.Invalid(name, fmt.Sprintf("'%s' cannot be read.", name))
	}
	return err
}

func setStates(f *service.Filter, name, text string) error {
	for _, word := range strings.Split(text, ",") {
		s := post.State(strings.TrimSpace(word))
		if !slices.Contains(post.States, s) {
			return refusal.Invalid(name, fmt.Sprintf("There is no state %q. The states are %s.", ui.Excerpt(40, word), post.AllOf(post.States)))
		}
		f.States = append(f.States, s)
	}
	return nil
}
