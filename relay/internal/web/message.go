package web

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/service"
	ui "slipway/shared/web"
)

// messagesFilter is the filter of the list of messages.
type messagesFilter struct {
	App      int64
	State    string
	Text     string
	From, To string // days in UTC, 2006-01-02
}

type messagesPage struct {
	frame
	messagesFilter
	Applications []account.Application
	Messages     []post.View
	Filtered     bool
	Next, First  string
	Retry        string // address that redelivers all of them; "" if their state does not allow it
	Cancel       string // …withdraws them
}

// waiting selects every message that is not final.
const waiting = "waiting"

func messagesFilterOf(q url.Values) (f messagesFilter) {
	f = messagesFilter{State: q.Get("state"), Text: strings.TrimSpace(q.Get("q")), From: q.Get("from"), To: q.Get("to")}
	f.App, _ = strconv.ParseInt(q.Get("app"), 10, 64) // anything else selects nothing
	return f
}

// rules converts the filter for service. An invalid day is ignored.
func (f messagesFilter) rules() service.Filter {
	out := service.Filter{ApplicationID: f.App, Text: f.Text, States: statesOf(f.State)}
	out.Since, _ = time.Parse(time.DateOnly, f.From)
	if to, err := time.Parse(time.DateOnly, f.To); err == nil {
		out.Until = to.AddDate(0, 0, 1)
	}
	return out
}

// address returns the address of a page with the filter.
func (f messagesFilter) address(path string, before int64) string {
	q := url.Values{}
	for name, value := range map[string]string{"state": f.State, "q": f.Text, "from": f.From, "to": f.To} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.App != 0 {
		q.Set("app", strconv.FormatInt(f.App, 10))
	}
	if before != 0 {
		q.Set("before", strconv.FormatInt(before, 10))
	}
	return path + "?" + q.Encode()
}

func (web *Web) getMessages(w http.ResponseWriter, v *sessionRequest) error {
	q := v.URL.Query()
	p := messagesPage{frame: web.frame(v, "messages", "Messages"), messagesFilter: messagesFilterOf(q)}
	p.Filtered = p.messagesFilter != messagesFilter{}
	var err error
	if p.Applications, err = web.service.Applications(v.ctx(), v.Principal); err != nil {
		return err
	}
	f := p.rules()
	f.Before, _ = strconv.ParseInt(q.Get("before"), 10, 64)
	page, err := web.service.Messages(v.ctx(), v.Principal, f)
	if err != nil {
		return err
	}
	p.Messages = page.Messages
	if page.Next != 0 {
		p.Next = p.address("/ui/messages", page.Next)
	}
	if f.Before != 0 {
		p.First = p.address("/ui/messages", 0)
	}
	if service.CanRedeliverAll(f.States) {
		p.Retry = p.address("/ui/messages/all", 0) + "&do=redeliver"
	}
	if service.CanCancelAll(f.States) {
		p.Cancel = p.address("/ui/messages/all", 0) + "&do=withdraw"
	}
	return web.show(w, http.StatusOK, "messages", p)
}

// getAll asks for a confirmation before all selected messages are changed.
func (web *Web) getAll(w http.ResponseWriter, v *sessionRequest) error {
	f := messagesFilterOf(v.URL.Query())
	rules := f.rules()
	rules.Limit = service.MaxPage
	page, err := web.service.Messages(v.ctx(), v.Principal, rules)
	if err != nil {
		return err
	}
	n := ui.Count(int64(len(page.Messages))) + " messages"
	switch {
	case page.Next != 0:
		n = "more than " + n
	case len(page.Messages) == 1:
		n = "1 message"
	}
	p := confirmPage{
		frame: web.frame(v, "messages", "Withdraw messages"), Heading: "Withdraw " + n + "?",
		Text:   fmt.Sprintf("They are not delivered. At most %d are withdrawn at once.", service.MaxBulk),
		Button: "Withdraw", Action: v.URL.RequestURI(), Cancel: f.address("/ui/messages", 0),
	}
	if v.URL.Query().Get("do") == "redeliver" {
		p.Title, p.Heading, p.Text, p.Button = "Redeliver messages", "Redeliver "+n+"?", fmt.Sprintf("They are queued again in their rooms. At most %d are queued at once.", service.MaxBulk), "Redeliver"
	}
	return web.show(w, http.StatusOK, "confirm", p)
}

func (web *Web) postAll(w http.ResponseWriter, v *sessionRequest) error {
	f := messagesFilterOf(v.URL.Query())
	act, done := web.service.CancelAll, "withdraw"
	if v.URL.Query().Get("do") == "redeliver" {
		act, done = web.service.RedeliverAll, "redeliver"
	}
	result, err := act(v.ctx(), v.Principal, f.rules())
	if err != nil {
		return err
	}
	if result.More {
		done += "more"
	} else {
		done += "all"
	}
	http.Redirect(w, v.Request, f.address("/ui/messages", 0)+"&done="+done, http.StatusSeeOther)
	return nil
}

func statesOf(word string) []post.State {
	switch {
	case word == waiting:
		return post.PendingStates
	case slices.Contains(post.States, post.State(word)):
		return []post.State{post.State(word)}
	}
	return nil
}

type messagePage struct {
	frame
	Message      post.View
	Body         template.HTML // sanitized by format
	CanRedeliver bool
	CanCancel    bool
	CanRemove    bool
	Removing     bool   // it was sent and is being removed
	Kept         string // how long the text stays here, of one that is removed from its room
	Link         string
	Alert        *post.Alert
	History      []event
}

// lower moves a message's headings below those of the page. In sanitized HTML these letters only begin tags.
var lower = strings.NewReplacer(
	"<h1", "<h3", "</h1", "</h3", "<h2", "<h4", "</h2", "</h4", "<h3", "<h5", "</h3", "</h5",
	"<h4", "<h6", "</h4", "</h6", "<h5", "<h6", "</h5", "</h6",
)

func (web *Web) getMessage(w http.ResponseWriter, v *sessionRequest) error {
	return web.showMessage(w, v, nil)
}

func (web *Web) showMessage(w http.ResponseWriter, v *sessionRequest, cause error) error {
	m, err := web.service.Message(v.ctx(), v.Principal, idOf(v))
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
	p.Body = template.HTML(lower.Replace(body)) //nolint:gosec // sanitized by format
	p.CanRedeliver, p.CanCancel = m.State.Redeliverable(), m.State.Cancellable()
	p.CanRemove = m.State == post.StateSent && !m.Removing
	if p.Removing = m.State == post.StateSent && m.Removing; p.Removing || m.State == post.StateRedacted {
		p.Kept = web.kept()
	}
	if p.Alert, err = web.service.Alert(v.ctx(), v.Principal, m.ID); err != nil {
		return err
	}
	if p.History, err = web.history(v, m.ID); err != nil {
		return err
	}
	if m.EventID != "" && m.RoomID != "" {
		p.Link = "https://matrix.to/#/" + url.PathEscape(m.RoomID) + "/" + url.PathEscape(m.EventID)
	}
	return web.show(w, status, "message", p)
}

func (web *Web) postRedeliver(w http.ResponseWriter, v *sessionRequest) error {
	if _, err := web.service.Redeliver(v.ctx(), v.Principal, idOf(v)); err != nil {
		return web.showMessage(w, v, err)
	}
	return back(w, v, "/ui/messages/"+strconv.FormatInt(idOf(v), 10), "redeliver")
}

// getCancel asks for a confirmation before a message is removed from its room.
func (web *Web) getCancel(w http.ResponseWriter, v *sessionRequest) error {
	m, err := web.service.Message(v.ctx(), v.Principal, idOf(v))
	if err != nil {
		return err
	}
	number := strconv.FormatInt(m.ID, 10)
	p := confirmPage{
		frame: web.frame(v, "messages", "Withdraw message "+number), Heading: "Withdraw message " + number + " from its room?",
		Text:   "Nobody can read it there any more. This cannot be undone. " + web.kept(),
		Button: "Withdraw", Action: v.URL.Path, Cancel: "/ui/messages/" + number,
	}
	return web.show(w, http.StatusOK, "confirm", p)
}

// kept describes how long the text of a removed message stays in the history.
func (web *Web) kept() string {
	if web.o.Retention == 0 {
		return "Its text stays here in the relay."
	}
	return "Its text stays here in the relay until history.retention (" + ui.Span(web.o.Retention) + ") is over."
}

func (web *Web) postCancel(w http.ResponseWriter, v *sessionRequest) error {
	if _, err := web.service.Cancel(v.ctx(), v.Principal, idOf(v)); err != nil {
		return web.showMessage(w, v, err)
	}
	return back(w, v, "/ui/messages/"+strconv.FormatInt(idOf(v), 10), "withdrawn")
}
