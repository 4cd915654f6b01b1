package web

import (
	"embed"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/shared/logging"
	ui "slipway/shared/web"
)

//go:embed templates static
var files embed.FS

var pageNames = []string{
	"login", "error", "dashboard", "applications", "application_new", "application", "token", "confirm",
	"messages", "message", "rooms", "users", "user", "account", "client",
}

func parsePages(version string) (*ui.Pages, error) {
	return ui.New(ui.Options{Brand: "Relay", Version: version, Base: "/ui", Files: files, Names: pageNames, Words: words})
}

// frame is the part that all pages share.
type frame struct {
	ui.Frame
	Admin bool
}

func (web *Web) frame(v *sessionRequest, section, title string) frame {
	f := frame{Frame: web.pages.Frame(section, title)}
	if v != nil {
		f.enter(v)
		f.Notice = notices[v.URL.Query().Get("done")]
	}
	return f
}

// enter shows the page to a user who has logged in.
func (f *frame) enter(v *sessionRequest) {
	f.Name, f.Admin, f.CSRF = v.Name, v.Admin, v.session.CSRF
	f.link("dashboard", "", "Overview")
	f.link("applications", "applications", "Applications")
	f.link("messages", "messages", "Messages")
	f.link("rooms", "rooms", "Rooms")
	if f.Admin {
		f.link("users", "users", "Users")
	}
	f.link("help", "help/", "Help")
}

func (f *frame) link(section, path, text string) {
	f.Menu = append(f.Menu, ui.Link{Href: "/ui/" + path, Text: text, On: f.Section == section})
}

// notices are shown after a redirect that names them: a page never shows text
// from its address.
var notices = map[string]string{
	"created":       "Created.",
	"saved":         "Saved.",
	"deleted":       "Deleted.",
	"redeliver":     "The message is in the queue again.",
	"acknowledged":  "The alert is acknowledged; its message says so.",
	"withdrawn":     "The message is withdrawn. If it is in its room already, it is being removed.",
	"redeliverall":  "The messages are in the queue again.",
	"redelivermore": "500 messages are in the queue again. More match: repeat it for those.",
	"withdrawall":   "The messages are withdrawn.",
	"withdrawmore":  "500 messages are withdrawn. More match: repeat it for those.",
	"retried":       "The relay tries again to send to the room.",
	"password":      "The password is changed. All other sessions have ended.",
	"loggedout":     "You are logged out.",
	"testqueued":    "The test message is on its way.",
}

// fail puts a refusal on a page that is shown again. It returns any other error.
func (f *frame) fail(w http.ResponseWriter, err error) (status int, fault error) {
	var refused *refusal.Error
	if !errors.As(err, &refused) || refused.Kind == refusal.KindInternal || refused.Kind == refusal.KindNotFound {
		return 0, err
	}
	f.Problem, f.Field = refused.Message, refused.Field
	retryAfter(w, refused)
	return request.Status(refused.Kind), nil
}

func retryAfter(w http.ResponseWriter, refused *refusal.Error) {
	if refused.RetryAfter > 0 {
		w.Header().Set("Retry-After", request.RetryAfter(refused.RetryAfter))
	}
}

func (web *Web) show(w http.ResponseWriter, status int, name string, data any) error {
	return web.pages.Show(w, status, name, data)
}

type errorPage struct {
	frame
	Status int
	Text   string
}

func (web *Web) showError(w http.ResponseWriter, r *http.Request, status int, text string) {
	p := errorPage{frame: web.frame(nil, "", http.StatusText(status)), Status: status, Text: text}
	if v, err := web.sessionRequest(r); err == nil {
		p.enter(v)
	}
	if err := web.show(w, status, "error", p); err != nil {
		http.Error(w, text, status)
	}
}

// fail answers with an error page.
func (web *Web) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := request.Status(refusal.KindOf(err)), "An internal error occurred; the relay's log has the cause."
	var refused *refusal.Error
	if errors.As(err, &refused) && refused.Kind != refusal.KindInternal {
		text = refused.Message
		retryAfter(w, refused)
	}
	if status >= 500 {
		web.log.Error("a page failed", zap.String("request", logging.RequestID(w)), zap.String("path", r.URL.Path), zap.Error(err))
	}
	web.showError(w, r, status, text)
}
