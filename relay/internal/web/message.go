package web

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/relay"
)

type messagesPage struct {
	frame
	Applications []relay.Application
	Messages     []relay.Message
	App          int64
	State        string
	Text         string
	Filtered     bool
	Next         string
	First        string
}

// waiting is a filter's word for everything on its way.
const waiting = "waiting"

func (web *Web) getMessages(w http.ResponseWriter, v *visit) error {
	q := v.URL.Query()
	p := messagesPage{frame: web.frame(v, "messages", "Messages"), State: q.Get("state"), Text: strings.TrimSpace(q.Get("q"))}
	p.App, _ = strconv.ParseInt(q.Get("app"), 10, 64) // anything else selects nothing
	f := relay.MessageFilter{ApplicationID: p.App, Text: p.Text, States: statesOf(p.State)}
	f.Before, _ = strconv.ParseInt(q.Get("before"), 10, 64)
	p.Filtered = p.App != 0 || p.State != "" || p.Text != ""
	var err error
	if p.Applications, err = web.service.Applications(v.ctx(), v.Viewer); err != nil {
		return err
	}
	page, err := web.service.Messages(v.ctx(), v.Viewer, f)
	if err != nil {
		return err
	}
	p.Messages = page.Messages
	if page.Next != 0 {
		p.Next = p.address(page.Next)
	}
	if f.Before != 0 {
		p.First = p.address(0)
	}
	return web.show(w, http.StatusOK, "messages", p)
}

func statesOf(word string) []relay.State {
	switch {
	case word == waiting:
		return []relay.State{relay.StateQueued, relay.StateRetryWait, relay.StateBlocked}
	case slices.Contains(relay.States, relay.State(word)):
		return []relay.State{relay.State(word)}
	}
	return nil
}

// address is this list from another place on.
func (p *messagesPage) address(before int64) string {
	q := url.Values{}
	if p.App != 0 {
		q.Set("app", strconv.FormatInt(p.App, 10))
	}
	if p.State != "" {
		q.Set("state", p.State)
	}
	if p.Text != "" {
		q.Set("q", p.Text)
	}
	if before != 0 {
		q.Set("before", strconv.FormatInt(before, 10))
	}
	return "/ui/messages?" + q.Encode()
}

type messagePage struct {
	frame
	Message      relay.Message
	Body         template.HTML // sanitised by format
	CanRedeliver bool
	CanCancel    bool
	CanRemove    bool
	Link         string
}

// lower puts a message's headings below those of the page. In what is sanitised
// these letters begin a tag and nothing else.
var lower = strings.NewReplacer(
	"<h1", "<h3", "</h1", "</h3", "<h2", "<h4", "</h2", "</h4", "<h3", "<h5", "</h3", "</h5",
	"<h4", "<h6", "</h4", "</h6", "<h5", "<h6", "</h5", "</h6",
)

func (web *Web) getMessage(w http.ResponseWriter, v *visit) error {
	return web.showMessage(w, v, nil)
}

func (web *Web) showMessage(w http.ResponseWriter, v *visit, cause error) error {
	m, err := web.service.Message(v.ctx(), v.Viewer, idOf(v))
	if err != nil {
		return err
	}
	p := messagePage{frame: web.frame(v, "messages", "Message "+strconv.FormatInt(m.ID, 10)), Message: m}
	status := http.StatusOK
	if cause != nil {
		if status, err = p.fail(w, cause); err != nil {
			return err
		}
	}
	kind := m.ContentType
	if kind == "" {
		kind = format.Markdown
	}
	body, _ := format.Body(kind, m.Body)
	p.Body = template.HTML(lower.Replace(body)) //nolint:gosec // what format lets through is what Matrix clients show
	p.CanRedeliver = slices.Contains([]relay.State{relay.StateDead, relay.StateAmbiguous, relay.StateCancelled}, m.State)
	p.CanRemove = m.State == relay.StateSent
	p.CanCancel = !p.CanRemove && m.State != relay.StateCancelled && m.State != relay.StateRedacted
	if m.EventID != "" && m.RoomID != "" {
		p.Link = "https://matrix.to/#/" + url.PathEscape(m.RoomID) + "/" + url.PathEscape(m.EventID)
	}
	return web.show(w, status, "message", p)
}

func (web *Web) postRedeliver(w http.ResponseWriter, v *visit) error {
	if _, err := web.service.Redeliver(v.ctx(), v.Viewer, idOf(v)); err != nil {
		return web.showMessage(w, v, err)
	}
	return back(w, v, "/ui/messages/"+strconv.FormatInt(idOf(v), 10), "redeliver")
}

// getCancel asks before a message is taken from those who have it.
func (web *Web) getCancel(w http.ResponseWriter, v *visit) error {
	m, err := web.service.Message(v.ctx(), v.Viewer, idOf(v))
	if err != nil {
		return err
	}
	number := strconv.FormatInt(m.ID, 10)
	p := confirmPage{
		frame: web.frame(v, "messages", "Remove message "+number), Heading: "Remove message " + number + " from its room?",
		Text:   "Nobody can read it there any more. It cannot be brought back.",
		Button: "Remove it", Action: v.URL.Path, Cancel: "/ui/messages/" + number,
	}
	return web.show(w, http.StatusOK, "confirm", p)
}

func (web *Web) postCancel(w http.ResponseWriter, v *visit) error {
	if _, err := web.service.Cancel(v.ctx(), v.Viewer, idOf(v)); err != nil {
		return web.showMessage(w, v, err)
	}
	return back(w, v, "/ui/messages/"+strconv.FormatInt(idOf(v), 10), "cancelled")
}
