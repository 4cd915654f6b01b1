package web

import (
	"errors"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"slipway/registry/internal/api"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/shared/logging"
	ui "slipway/shared/web"
)

// frame is the part that all pages share.
type frame struct {
	ui.Frame
	Open bool // everybody may do everything
}

func (web *Web) frame(v *visit, section, title string) frame {
	f := frame{Frame: web.pages.Frame(section, title), Open: web.o.Auth == nil}
	f.Name, f.CSRF, f.Notice = v.user(), v.csrf, notices[v.URL.Query().Get("done")]
	if f.CSRF == "" {
		f.Name = "" // known by a certificate, which ends with the connection
	}
	if f.Name == "" && web.canLogIn() {
		f.Login = web.base + "/login" + ui.NextQuery(web.outside(v.Request), web.base)
	}
	link := func(section, path, text string) {
		f.Menu = append(f.Menu, ui.Link{Href: web.base + path, Text: text, On: f.Section == section})
	}
	link("repositories", "/", "Repositories")
	if web.o.Index != nil {
		link("usage", "/usage", "Usage")
	}
	if web.restores(v) {
		link("trash", "/trash", "Deleted")
	}
	if web.showsRights(v) {
		link("access", "/access", "Access")
	}
	if web.managesUsers(v) {
		link("users", "/users", "Users")
	}
	if web.managesRobots(v) {
		link("robots", "/robots", "Robots")
	}
	if web.managesTokens(v) {
		link("tokens", "/tokens", "Tokens")
	}
	if web.o.Auth == nil || f.Name != "" && web.administers(v) {
		link("state", "/state", "State")
		link("maintenance", "/maintenance", "Maintenance")
		if web.o.AuditFile != "" && v.grant != nil {
			link("acts", "/audit", "Audit")
		}
	}
	link("help", "/help/", "Help")
	return f
}

// outside is the request with the path as the browser sees it.
func (web *Web) outside(r *http.Request) *http.Request {
	u := *r.URL
	if base, err := url.PathUnescape(web.base); err == nil {
		u.Path, u.RawPath = base+u.Path[len("/ui"):], ""
	}
	return &http.Request{Method: r.Method, URL: &u}
}

// notices are shown after a redirect that names them: a page never shows text from its address.
var notices = map[string]string{
	"loggedout": "You are logged out.",
	"deleted":   "Deleted.",

	"deletedforgood": "Deleted. The storage is full, so this cannot be undone.",
	"tagged":         "The tag is set.",
	"restored":       "Restored.",
	"restoredpart":   "Restored in part. What is still listed here could not be restored; the registry's log has the reasons.",
	"started":        "The run is requested; its row shows how far it is.",
	"changed":        "Changed.",
	"password":       "Your password is changed. Sessions elsewhere and your personal access tokens have ended.",
	"revoked":        "Revoked. It can no longer log in.",
}

// refusal is an error that the visitor may read.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

var (
	errNoPage = &refusal{http.StatusNotFound, "There is no such page."}
	// errHidden is the error both for content that doesn't exist and for content that the visitor may not see.
	errHidden = &refusal{http.StatusNotFound, "This is not here, or you may not see it."}
)

type errorPage struct {
	frame
	Status int
	Text   string
}

// problem is the status of an error and the sentence about it for the visitor.
func problem(err error) (status int, text string) {
	var refused *refusal
	var denied *auth.Refusal
	switch {
	case oci.IsUnknown(err):
		return errHidden.status, errHidden.text
	case errors.As(err, &refused):
		return refused.status, refused.text
	case errors.As(err, &denied) && denied.RetryAfter > 0:
		return http.StatusServiceUnavailable, "Logging in is not possible at the moment. Try again in some seconds."
	case errors.Is(err, registry.ErrDamaged):
		return http.StatusInternalServerError, "The stored content is damaged. The command registry verify finds damaged content, and pushing it again repairs it."
	}
	if status, text = api.Status(err); status < http.StatusInternalServerError || status == http.StatusServiceUnavailable {
		return status, ui.Sentence(text)
	}
	return http.StatusInternalServerError, "An internal error occurred; the registry's log has the cause."
}

// again shows a page with a form once more, with what is wrong; an error that isn't the visitor's is returned.
func (web *Web) again(w http.ResponseWriter, page string, content any, f *frame, failed error) error {
	status, text := problem(failed)
	if status >= http.StatusInternalServerError {
		return failed
	}
	f.Problem = text
	return web.pages.Show(w, status, page, content)
}

// fail answers with an error page.
func (web *Web) fail(w http.ResponseWriter, v *visit, err error) {
	status, text := problem(err)
	if v.Context().Err() != nil && status != http.StatusRequestTimeout {
		panic(http.ErrAbortHandler) // the client has left; without an answer it would be 200 in logs
	}
	if status >= http.StatusInternalServerError {
		web.o.Log.Error("a page failed", zap.String("http.request.id", logging.RequestID(w)), zap.String("path", v.URL.Path), zap.Error(err))
	}
	p := errorPage{frame: web.frame(v, "", http.StatusText(status)), Status: status, Text: text}
	if err := web.pages.Show(w, status, "error", p); err != nil {
		http.Error(w, text, status)
	}
}
