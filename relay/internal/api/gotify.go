package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"slipway/relay/internal/account"
	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/service"
)

// gotifyMessage is a message as Gotify's clients read it.
type gotifyMessage struct {
	ID       int64           `json:"id"`
	AppID    int64           `json:"appid"`
	Message  string          `json:"message"`
	Title    string          `json:"title"`
	Priority int             `json:"priority"`
	Extras   json.RawMessage `json:"extras,omitempty"`
	Date     time.Time       `json:"date"`
}

// gotifyPriorities are Gotify's priorities for −2 to 2: its clients are silent at 0, and alert from 8 on.
var gotifyPriorities = [...]int{1, 3, 5, 8, 10}

func showGotify(m post.View) gotifyMessage {
	out := gotifyMessage{
		ID: m.ID, AppID: m.ApplicationID, Message: format.Message{Body: m.Body, Note: m.Note, ContentType: m.ContentType}.Source(), Title: m.Title, Extras: json.RawMessage(m.Extras), Date: post.Time(m.AcceptedAt),
		Priority: gotifyPriorities[min(max(m.Priority, post.MinPriority), post.MaxPriority)-post.MinPriority],
	}
	if m.GotifyScale > 0 {
		out.Priority = m.GotifyScale - 1
	}
	switch m.ContentType {
	case format.Plain:
	case format.HTML: // which they don't show
		_, out.Message = format.Body(m.ContentType, out.Message)
	default:
		out.Extras = asMarkdown(out.Extras)
	}
	return out
}

// asMarkdown adds to a message's extras that it is Markdown.
func asMarkdown(extras json.RawMessage) json.RawMessage {
	const display = "client::display"
	all := map[string]json.RawMessage{}
	if json.Unmarshal(extras, &all) != nil && len(extras) > 0 || all[display] != nil {
		return extras
	}
	all[display] = json.RawMessage(`{"contentType":"text/markdown"}`)
	out, err := json.Marshal(all)
	if err != nil {
		return extras
	}
	return out
}

// gotifyList is a page, newest first.
type gotifyList struct {
	Paging   gotifyPaging    `json:"paging"`
	Messages []gotifyMessage `json:"messages"`
}

type gotifyPaging struct {
	Next  string `json:"next,omitempty"`
	Size  int    `json:"size"`
	Since int64  `json:"since"` // ?since= of the next page; 0 at the end
	Limit int    `json:"limit"`
}

// readMessages lists what a client may read, of all applications or of the one in the path.
func (a *API) readMessages(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	q := r.URL.Query()
	limit, err := number(q, "limit", 100)
	if err != nil || limit < 1 || limit > service.MaxReaderPage {
		return refusal.Invalid("limit", fmt.Sprintf("A page has 1 to %d messages.", service.MaxReaderPage))
	}
	since, err := number(q, "since", 0)
	if err != nil {
		return err
	}
	application := int64(0)
	if mux.Vars(r)["id"] != "" {
		if application = idOf(r); application == 0 {
			return refusal.NotFound("application")
		}
	}
	page, err := a.service.ReadMessages(r.Context(), v, application, since, int(limit))
	if err != nil {
		return err
	}
	list := gotifyList{Messages: shown(page.Messages, showGotify), Paging: gotifyPaging{Size: len(page.Messages), Limit: int(limit)}}
	if page.More {
		list.Paging.Since = page.Messages[len(page.Messages)-1].ID
		list.Paging.Next = r.URL.Path + "?" + url.Values{"limit": {strconv.FormatInt(limit, 10)}, "since": {strconv.FormatInt(list.Paging.Since, 10)}}.Encode()
	}
	return answer(w, list, nil)
}

// number returns a number of the query that isn't negative.
func number(q url.Values, name string, absent int64) (int64, error) {
	if q.Get(name) == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < 0 {
		return 0, refusal.Invalid(name, fmt.Sprintf("'%s' must be a number.", name))
	}
	return n, nil
}

// hideMessage leaves a message out of what a client's user reads; the room keeps it.
func (a *API) hideMessage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	return answer(w, done{true}, a.service.HideMessage(r.Context(), v, idOf(r)))
}

// hideMessages is hideMessage for all messages, or all of the application in the path.
func (a *API) hideMessages(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	if mux.Vars(r)["id"] != "" && idOf(r) == 0 {
		return refusal.NotFound("application")
	}
	return answer(w, done{true}, a.service.HideMessages(r.Context(), v, idOf(r)))
}

// gotifyApplication is an application as Gotify's clients read it, without its token.
type gotifyApplication struct {
	ID              int64      `json:"id"`
	Token           string     `json:"token"` // always empty: Gotify 3 omits it, clients of Gotify 2 fail without it
	Name            string     `json:"name"`
	Description     string     `json:"description"`
	Internal        bool       `json:"internal"`
	Image           string     `json:"image"` // relative to the server's URL
	DefaultPriority int        `json:"defaultPriority"`
	CreatedAt       time.Time  `json:"createdAt"`
	LastUsed        *time.Time `json:"lastUsed"`
}

func (a *API) readApplications(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	apps, err := a.service.Applications(r.Context(), v)
	list := shown(apps, func(app account.Application) gotifyApplication {
		out := gotifyApplication{
			ID: app.ID, Name: app.Name, Description: app.Description, Image: defaultImagePath[1:], CreatedAt: app.CreatedAt.UTC(), LastUsed: timeOrNull(post.Millis(app.LastUsed)),
			DefaultPriority: gotifyPriorities[app.DefaultPriority-post.MinPriority],
		}
		if app.ImageName != "" {
			out.Image = "image/" + app.ImageName
		}
		return out
	})
	return answer(w, list, err)
}

// getGotifyInfo tells Gotify's clients how to log in: with a name and a password.
func (a *API) getGotifyInfo(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, map[string]any{"version": a.o.Version.Version, "register": false, "oidc": false}, nil)
}
