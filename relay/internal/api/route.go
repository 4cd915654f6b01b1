package api

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gorilla/mux"
	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/shared/idempotency"
	"slipway/shared/logging"
	"slipway/shared/tracing"
	ui "slipway/shared/web"
)

// handler answers one request or returns an error, which the router answers.
type handler func(http.ResponseWriter, *http.Request) error

// userHandler is a handler for an authenticated principal.
type userHandler func(http.ResponseWriter, *http.Request, account.Principal) error

// answer answers with the JSON of v, or returns err.
func answer(w http.ResponseWriter, v any, err error) error {
	if err == nil {
		request.WriteJSON(w, http.StatusOK, v)
	}
	return err
}

// shown returns the JSON form of each element.
func shown[T, JSON any](all []T, show func(T) JSON) []JSON {
	out := make([]JSON, len(all))
	for i, one := range all {
		out[i] = show(one)
	}
	return out
}

// row is one route.
type row struct {
	method string
	path   string                   // as mux writes it
	match  func(*http.Request) bool // nil matches every request
	who    access
	handle handler
	fail   func(http.ResponseWriter, error) // nil answers with JSON
	api    *API
	count  *rowMetrics
}

// access is the kind of principal that a route admits. What it sees there depends on the principal.
type access int

const (
	_ access = iota
	anybody
	senders // an application's token, looked up by the handler
	viewers // a user, or an application by its token
	users   // a user by name and password, or by the session of the pages
	readers // a client by its token, or a user
)

// routes returns the whole interface; the busiest routes come first.
func (a *API) routes() []*row {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	var rows []*row
	for _, p := range a.o.Inbound {
		rows = append(rows, a.inboundRows(p)...)
		if p.Name == protocol.NtfyName {
			rows = append(rows, a.ntfyRows()...)
		}
	}
	rows = append(rows, []*row{
		{method: get, path: "/message", who: viewers, handle: a.byClient(a.readMessages, a.forViewer(a.unlessRedirected(a.listMessages)))},
		{method: del, path: "/message", who: readers, handle: a.forReader(a.hideMessages)},
		{method: get, path: "/message/{id:[0-9]+}", who: viewers, handle: a.forViewer(a.getMessage)},
		{method: del, path: "/message/{id:[0-9]+}", who: viewers, handle: a.byClient(a.hideMessage, a.forViewer(a.deleteMessage))},
		{method: get, path: "/message/{id:[0-9]+}/history", who: viewers, handle: a.forViewer(a.listHistory)},
		{method: post, path: "/message/{id:[0-9]+}/acknowledge", who: viewers, handle: a.forViewer(a.acknowledgeMessage)},
		{method: get, path: "/alert", who: viewers, handle: a.forViewer(a.unlessRedirected(a.listAlerts))},
		{method: post, path: "/message/{id:[0-9]+}/redeliver", who: viewers, handle: a.forViewer(a.redeliverMessage)},
		{method: post, path: "/message/redeliver", who: viewers, handle: a.forViewer(bulk(a.service.RedeliverAll))},
		{method: post, path: "/message/withdraw", who: viewers, handle: a.forViewer(bulk(a.service.CancelAll))},

		{method: get, path: "/message/stream", who: viewers, handle: a.byClient(a.streamEvents, a.forViewer(a.streamEvents))},

		{method: get, path: "/application", who: readers, handle: a.byClient(a.readApplications, a.forUser(a.listApplications))},
		{method: post, path: "/application", who: users, handle: a.forUser(a.once(a.createApplication))},
		{method: get, path: "/application/{id:[0-9]+}", who: users, handle: a.forUser(a.getApplication)},
		{method: put, path: "/application/{id:[0-9]+}", who: users, handle: a.forUser(a.updateApplication)},
		{method: del, path: "/application/{id:[0-9]+}", who: users, handle: a.forUser(a.deleteApplication)},
		{method: post, path: "/application/{id:[0-9]+}/token", who: users, handle: a.forUser(a.once(a.regenerateToken))},

		{method: get, path: "/application/{id:[0-9]+}/preview", who: users, handle: a.forUser(a.previewTemplates)},
		{method: post, path: "/application/{id:[0-9]+}/preview", who: users, handle: a.forUser(a.previewTemplates)},

		{method: get, path: "/application/{id:[0-9]+}/image", who: users, handle: a.forUser(a.getImage)},
		{method: post, path: "/application/{id:[0-9]+}/image", who: users, handle: a.forUser(a.postImage)},
		{method: del, path: "/application/{id:[0-9]+}/image", who: users, handle: a.forUser(a.deleteImage)},

		{method: get, path: "/application/{id:[0-9]+}/message", who: readers, handle: a.forReader(a.readMessages)},
		{method: del, path: "/application/{id:[0-9]+}/message", who: readers, handle: a.forReader(a.hideMessages)},
		{method: get, path: "/client", who: readers, handle: a.forReader(a.listClients)},
		{method: post, path: "/client", who: users, handle: a.forUser(a.once(a.createClient))},
		{method: put, path: "/client/{id:[0-9]+}", who: readers, handle: a.forReader(a.updateClient)},
		{method: del, path: "/client/{id:[0-9]+}", who: readers, handle: a.forReader(a.deleteClient)},
		{method: post, path: "/auth/local/login", who: anybody, handle: a.logInClient},
		{method: post, path: "/auth/logout", who: readers, handle: a.forReader(a.logOutClient)},
		{method: get, path: "/current/user", who: readers, handle: a.forReader(a.getCurrentUser)},
		{method: get, path: "/stream", who: readers, handle: a.forReader(a.streamMessages)},
		{method: get, path: "/image/{name}", who: anybody, handle: a.getNamedImage},
		{method: get, path: defaultImagePath, who: anybody, handle: a.getDefaultImage},
		{method: get, path: "/gotifyinfo", who: anybody, handle: a.getGotifyInfo},

		{method: get, path: "/user", who: users, handle: a.forUser(a.listUsers)},
		{method: post, path: "/user", who: users, handle: a.forUser(a.createUser)},
		{method: get, path: "/user/{id:[0-9]+}", who: users, handle: a.forUser(a.getUser)},
		{method: put, path: "/user/{id:[0-9]+}", who: users, handle: a.forUser(a.updateUser)},
		{method: del, path: "/user/{id:[0-9]+}", who: users, handle: a.forUser(a.deleteUser)},

		{method: get, path: "/doctor", who: users, handle: a.forUser(a.getDoctor)},
		{method: get, path: "/bot/recovery-key", who: users, handle: a.forUser(a.getRecoveryKey)},
		{method: get, path: "/health", who: anybody, handle: a.getHealth},
		{method: get, path: "/ntfy/v1/health", who: anybody, handle: a.getNtfyHealth},
		{method: get, path: "/v1/health", who: anybody, handle: a.getNtfyHealth},
		{method: get, path: "/livez", who: anybody, handle: a.getLive},
		{method: get, path: "/readyz", who: anybody, handle: a.getReady},
		{method: get, path: "/version", who: anybody, handle: a.getVersion},
		{method: get, path: "/openapi.yml", who: anybody, handle: a.getOpenAPI},
	}...)
	a.reserve(rows)
	return rows
}

// reserve keeps a route that begins with a variable, such as ntfy's topics, off the fixed paths, and off longer paths that begin like one of
// them: a wrong method there is refused and sends nothing.
func (a *API) reserve(rows []*row) {
	fixed := map[string]bool{"/metrics": true, "/ui": true} // router may add both
	a.first = map[string]bool{"metrics": true, "ui": true}
	for _, row := range rows {
		if !strings.Contains(row.path, "{") {
			fixed[row.path] = true
		}
		if first, _, _ := strings.Cut(row.path[1:], "/"); !strings.HasPrefix(first, "{") {
			a.first[first] = true
		}
	}
	for _, row := range rows {
		if strings.HasPrefix(row.path, "/{") {
			match := row.match
			row.match = func(r *http.Request) bool {
				first, _, longer := strings.Cut(r.URL.Path[1:], "/")
				return !fixed[r.URL.Path] && (!longer || !a.first[first]) && (match == nil || match(r))
			}
		}
	}
}

// belowTopic reports whether a path is one that ntfy's clients may ask for: below a topic, or of ntfy's API.
func (a *API) belowTopic(path string) bool {
	if !a.hasNtfy {
		return false
	}
	first, _, longer := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/ntfy"), "/"), "/")
	return longer && (first == "v1" || strings.HasPrefix(path, "/ntfy/") || !a.first[first])
}

// heads reports whether the row answers HEAD, too. A sender's GET has an effect.
func (row *row) heads() bool { return row.method == http.MethodGet && row.who != senders }

// wordsOf returns the segments of the rows' paths that are no variables.
func wordsOf(rows []*row) map[string]bool {
	words := map[string]bool{}
	for _, row := range rows {
		for s := range strings.SplitSeq(row.path, "/") {
			if !strings.HasPrefix(s, "{") {
				words[s] = true
			}
		}
	}
	return words
}

// router registers the rows. Unknown paths and wrong methods are rows, too, so that they are counted and logged.
func (a *API) router() *mux.Router {
	router := mux.NewRouter().SkipClean(true)
	for _, row := range a.routes() {
		methods := []string{row.method}
		if row.heads() {
			methods = append(methods, http.MethodHead)
		}
		a.rows = append(a.rows, row)
		route := router.NewRoute()
		if row.match != nil {
			// Before the path, and never true without it: each matcher that matches makes mux forget the 405
			// of an earlier row.
			path := new(mux.Route).Path(row.path)
			route.MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool {
				return path.Match(r, new(mux.RouteMatch)) && row.match(r)
			})
		}
		route.Path(row.path).Methods(methods...).Handler(a.prepare(row))
	}
	if a.o.Prometheus != nil {
		metrics := &row{method: http.MethodGet, path: "/metrics", who: anybody, handle: a.exactly("/metrics", handled(a.o.Prometheus))}
		a.rows = append(a.rows, metrics)
		router.Path(metrics.path).Methods(http.MethodGet, http.MethodHead).Handler(a.prepare(metrics))
	}
	if a.o.Pages != nil {
		pages := a.prepare(&row{method: "any", path: "/ui/", who: anybody, handle: handled(a.o.Pages)})
		router.Path("/ui").Methods(http.MethodGet, http.MethodHead).Handler(http.RedirectHandler("/ui/", http.StatusSeeOther))
		router.Path("/").Methods(http.MethodGet, http.MethodHead).Handler(http.RedirectHandler("/ui/", http.StatusSeeOther))
		router.PathPrefix("/ui/").Handler(pages)
	}
	router.NotFoundHandler = a.prepare(&row{method: "any", path: "none", who: anybody, handle: a.notFound})
	router.MethodNotAllowedHandler = a.prepare(&row{method: "any", path: "none", who: anybody, handle: a.methodNotAllowed})
	return router
}

func handled(h http.Handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}

// exactly serves only requests for this path. Proxies hide the path from the world, but not the spellings that
// normalizePath would turn into it.
func (a *API) exactly(path string, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if asked, _, _ := strings.Cut(r.RequestURI, "?"); asked != path {
			return a.notFound(w, r)
		}
		return h(w, r)
	}
}

func (a *API) prepare(row *row) *row {
	row.api = a
	if row.fail == nil {
		row.fail = request.WriteError
	}
	row.count = a.o.Metrics.row(row.method, row.template())
	return row
}

// template returns the path without patterns.
func (row *row) template() string { return strings.ReplaceAll(row.path, ":[0-9]+", "") }

// ServeHTTP runs the handler, answers and logs errors, and counts the request.
func (row *row) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := logging.RecorderOf(w)
	tracing.Route(r, row.path)
	if err := row.handle(w, r); err != nil {
		row.refuse(w, rec, r, err)
	}
	row.count.done(rec.Status(), rec.Elapsed())
}

// refuse answers and logs an error: refusals at debug, faults at error.
func (row *row) refuse(w http.ResponseWriter, rec *logging.Recorder, r *http.Request, err error) {
	level := zap.DebugLevel
	if request.Status(refusal.KindOf(err)) >= http.StatusInternalServerError {
		level = zap.ErrorLevel
	}
	if entry := row.api.log.Check(level, "request refused"); entry != nil {
		entry.Write(zap.String("request", rec.ID()), zap.String("method", r.Method), zap.String("route", row.path), zap.Error(err))
	}
	if rec.Began() {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("X-Request-Id", rec.ID())
	row.fail(w, err)
}

var errNoPath = &refusal.Error{Kind: refusal.KindNotFound, Message: "There is nothing at this path."}

func (a *API) notFound(w http.ResponseWriter, r *http.Request) error {
	if a.belowTopic(r.URL.Path) { // whose clients fail on errors in another shape
		protocol.FailNtfy(w, errNoPath)
		return nil
	}
	return errNoPath
}

func (a *API) methodNotAllowed(w http.ResponseWriter, r *http.Request) error {
	if a.belowTopic(r.URL.Path) && r.Method != http.MethodHead { // ntfy knows no 405
		return a.notFound(w, r)
	}
	var allowed []string
	for _, row := range a.rows {
		if row.at(r.URL.Path) && (row.match == nil || row.match(r)) {
			allowed = append(allowed, row.method)
			if row.heads() {
				allowed = append(allowed, http.MethodHead)
			}
		}
	}
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(slices.Compact(allowed), ", "))
	return &refusal.Error{Kind: refusal.KindMethod, Message: "This path does not support the method."}
}

// at reports whether the row's path is the path given.
func (row *row) at(path string) bool {
	return new(mux.Route).Path(row.path).Match(&http.Request{URL: &url.URL{Path: path}}, new(mux.RouteMatch))
}

// once answers a repeated request with the same Idempotency-Key as the first one.
func (a *API) once(h userHandler) userHandler {
	return func(w http.ResponseWriter, r *http.Request, v account.Principal) error {
		err := a.answers.Serve(w, r, strconv.FormatInt(v.UserID, 10), a.maxBody.Load(), func(w http.ResponseWriter) error { return h(w, r, v) })
		switch {
		case errors.Is(err, idempotency.ErrKeyTooLong):
			return refusal.Invalid("Idempotency-Key", ui.Sentence(err.Error()))
		case errors.Is(err, idempotency.ErrTooMany):
			return &refusal.Error{Kind: refusal.KindRateLimited, Message: ui.Sentence(err.Error()), RetryAfter: idempotency.Lifetime}
		case errors.Is(err, idempotency.ErrOtherRequest):
			return refusal.Conflict("Idempotency-Key", ui.Sentence(err.Error()))
		case errors.Is(err, idempotency.ErrBody):
			return refusal.Invalid("", ui.Sentence(err.Error()))
		}
		return err
	}
}
