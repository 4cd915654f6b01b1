package web

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/refusal"
	"slipway/shared/logging"
)

//go:embed templates
var templateFiles embed.FS

// pages are the templates by name, each a set of its own with the frame.
type pages map[string]*template.Template

var pageNames = []string{
	"login", "error", "dashboard", "applications", "application_new", "application", "token", "confirm",
	"messages", "message", "rooms", "users", "user", "account",
}

func parsePages() (pages, error) {
	all := pages{}
	for _, name := range pageNames {
		t, err := template.New(name).Funcs(words).ParseFS(templateFiles, "templates/frame.html", "templates/parts.html", "templates/"+name+".html")
		if err != nil {
			return nil, err
		}
		all[name] = t
	}
	return all, nil
}

// frame is the part that all pages share.
type frame struct {
	Title   string
	Section string // of the navigation
	Name    string // of the user; "" without a session
	Admin   bool
	CSRF    string
	Notice  string // what has just been done
	Problem string // what went wrong
	Field   string // where
	Style   string
	Icon    string
	Script  string
	Version string
}

func (web *Web) frame(v *sessionRequest, section, title string) frame {
	f := frame{Title: title, Section: section, Style: web.style.path(), Icon: web.icon.path(), Script: web.script.path(), Version: web.o.Version}
	if v != nil {
		f.Name, f.Admin, f.CSRF = v.Name, v.Admin, v.session.CSRF
		f.Notice = notices[v.URL.Query().Get("done")]
	}
	return f
}

// notices are shown after a redirect that names them: a page never shows text
// from its address.
var notices = map[string]string{
	"created":    "Created.",
	"saved":      "Saved.",
	"deleted":    "Deleted.",
	"redeliver":  "The message is in the queue again.",
	"cancelled":  "The message is withdrawn. If it is in its room already, it is being removed.",
	"retryall":   "The messages are in the queue again.",
	"retrymore":  "500 messages are in the queue again. More match: repeat it for those.",
	"cancelall":  "The messages are withdrawn.",
	"cancelmore": "500 messages are withdrawn. More match: repeat it for those.",
	"retried":    "The relay tries again to send to the room.",
	"password":   "The password is changed. All other sessions have ended.",
	"loggedout":  "You are logged out.",
	"testqueued": "The test message is on its way.",
}

// fail puts a refusal on a page that is shown again. It returns any other error.
func (f *frame) fail(w http.ResponseWriter, err error) (status int, fault error) {
	var refused *refusal.Error
	if !errors.As(err, &refused) || refused.Kind == refusal.KindInternal || refused.Kind == refusal.KindNotFound {
		return 0, err
	}
	f.Problem, f.Field = refused.Message, refused.Field
	retryAfter(w, refused)
	return httprequest.Status(refused.Kind), nil
}

func retryAfter(w http.ResponseWriter, refused *refusal.Error) {
	if refused.RetryAfter > 0 {
		w.Header().Set("Retry-After", httprequest.RetryAfter(refused.RetryAfter))
	}
}

// show renders into a buffer first, so that a failing template leaves no partial page.
func (web *Web) show(w http.ResponseWriter, status int, name string, data any) error {
	var b bytes.Buffer
	if err := web.pages[name].ExecuteTemplate(&b, "frame", data); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a closed connection needs no page
	return nil
}

type errorPage struct {
	frame
	Status int
	Text   string
}

func (web *Web) showError(w http.ResponseWriter, r *http.Request, status int, text string) {
	p := errorPage{frame: web.frame(nil, "", http.StatusText(status)), Status: status, Text: text}
	if v, err := web.sessionRequest(r); err == nil {
		p.Name, p.Admin, p.CSRF = v.Name, v.Admin, v.session.CSRF
	}
	if err := web.show(w, status, "error", p); err != nil {
		http.Error(w, text, status)
	}
}

// fail answers with an error page.
func (web *Web) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := httprequest.Status(refusal.KindOf(err)), "An internal error occurred; the relay's log has the cause."
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
