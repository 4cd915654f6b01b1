package api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"slipway/registry/internal/oci"
)

// handler answers one request or returns why it cannot.
type handler func(*response, *request) error

// row is one route. Its action is the permission it needs, so that no route
// goes without one.
type row struct {
	method string
	place  place
	action action
	handle handler
	event  string // logged when it succeeds

	api     *API
	metrics *rowMetrics
}

// rows is the whole API; the routes most asked for come first.
func (a *API) rows() []*row {
	const get, head, post, put, patch, del = http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	return []*row{
		{method: get, place: atManifest, action: pull, handle: a.getManifest, event: "pull"},
		{method: head, place: atManifest, action: pull, handle: a.getManifest},
		{method: get, place: atBlob, action: pull, handle: a.getBlob, event: "pull"},
		{method: head, place: atBlob, action: pull, handle: a.headBlob},
		{method: post, place: atUploads, action: push, handle: a.startUpload},
		{method: patch, place: atUpload, action: push, handle: a.patchUpload},
		{method: put, place: atUpload, action: push, handle: a.putUpload, event: "push"},
		{method: get, place: atUpload, action: push, handle: a.getUpload},
		{method: head, place: atUpload, action: push, handle: a.getUpload},
		{method: del, place: atUpload, action: push, handle: a.deleteUpload},
		{method: put, place: atManifest, action: push, handle: a.putManifest, event: "push"},
		{method: del, place: atManifest, action: remove, handle: a.deleteManifest, event: "delete"},
		{method: del, place: atBlob, action: remove, handle: a.deleteBlob, event: "delete"},
		{method: get, place: atBase, action: login, handle: a.getBase},
		{method: head, place: atBase, action: login, handle: a.getBase},
		{method: get, place: atTags, action: pull, handle: a.listTags},
		{method: head, place: atTags, action: pull, handle: a.listTags},
		{method: get, place: atReferrers, action: pull, handle: a.listReferrers},
		{method: head, place: atReferrers, action: pull, handle: a.listReferrers},
		{method: get, place: atCatalog, action: list, handle: a.getCatalog},
		{method: head, place: atCatalog, action: list, handle: a.getCatalog},
		{method: get, place: atRoot, action: open, handle: a.getRoot},
		{method: head, place: atRoot, action: open, handle: a.getRoot},
		{method: get, place: atRedirect, action: open, handle: a.redirect},
		{method: head, place: atRedirect, action: open, handle: a.redirect},
	}
}

// names are the rows' names in metrics, those of CNCF distribution.
var names = map[place]string{
	nowhere: "none", atRoot: "root", atRedirect: "none", atBase: "base", atCatalog: "catalog", atTags: "tags",
	atManifest: "manifest", atBlob: "blob", atUploads: "blob_upload", atUpload: "blob_upload_chunk", atReferrers: "referrers",
}

// newRouter puts the rows into mux, each behind a matcher that reads the path
// by hand. An unknown path and a wrong method are rows as well, so that they
// are answered, counted and logged like any other.
func (a *API) newRouter() *mux.Router {
	router := mux.NewRouter().SkipClean(true)
	for _, row := range a.rows() {
		at := row.place
		// The place first: mux forgets that a method was wrong at a place as
		// soon as another row's first matcher agrees.
		router.MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool { return a.locate(r.URL).place == at }).Methods(row.method).Handler(a.prepare(row))
	}
	router.NotFoundHandler = a.prepare(&row{method: "any", action: open, handle: a.notFound})
	router.MethodNotAllowedHandler = a.prepare(&row{method: "any", action: open, handle: a.methodNotAllowed})
	return router
}

func (a *API) prepare(row *row) *row {
	row.api = a
	row.metrics = a.opts.Metrics.row(names[row.place], row.method)
	return row
}

// writes says whether the row changes what is stored.
func (row *row) writes() bool {
	return row.action >= push && row.method != http.MethodGet && row.method != http.MethodHead
}

// lastVar is the name of the path's last element in log lines.
func (row *row) lastVar() string {
	switch row.place {
	case atManifest:
		return "vars.reference"
	case atUpload:
		return "vars.uuid"
	case atBlob, atReferrers:
		return "vars.digest"
	default:
		return ""
	}
}

// exchange is a request and its answer, made at once.
type exchange struct {
	w response
	r request
}

// ServeHTTP is the one way through the API: headers, health, authorization,
// handler, error, log and count.
func (row *row) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	a := row.api
	x := &exchange{w: response{ResponseWriter: w}}
	x.r = request{Request: hr, api: a, row: row, serial: a.serial.Add(1), start: time.Now(), event: row.event}
	row.metrics.begin()
	defer x.end()
	h := w.Header()
	for i := range a.headers {
		h[a.headers[i].key] = a.headers[i].values
	}
	if err := row.serve(&x.w, &x.r); err != nil {
		x.r.fail(&x.w, err)
	}
}

// serve does what comes before the handler, cheapest first. Whether deletion
// or writing is possible at all is told to whoever may delete or write.
func (row *row) serve(w *response, r *request) error {
	a := row.api
	if a.opts.Ready != nil {
		if err := a.opts.Ready(); err != nil {
			return &oci.Error{Code: oci.CodeUnavailable, Detail: "health check failed: please see /debug/health", Err: err}
		}
	}
	to := a.locate(r.URL)
	r.last = to.last
	if to.name != "" && row.action != open {
		name, err := oci.ParseName(to.name)
		if err != nil {
			return err
		}
		r.name = name
	}
	if err := a.authorize(w, r); err != nil {
		return err
	}
	switch {
	case row.writes() && a.opts.ReadOnly:
		w.Header().Set("Allow", "GET, HEAD")
		return oci.NewError(oci.CodeUnsupported, "the registry is read-only")
	case row.action == remove && !a.opts.DeleteEnabled:
		return oci.NewError(oci.CodeUnsupported, "deletion is disabled")
	}
	return row.handle(w, r)
}

// end notes the request. It runs when the handler cuts the connection, too.
func (x *exchange) end() {
	if x.w.status == 0 {
		x.w.status = http.StatusInternalServerError // a panic, on its way to whoever recovers it
	}
	took := time.Since(x.r.start)
	x.r.row.metrics.end(x.r.Request, x.w.status, x.w.written, took)
	x.r.logEnd(&x.w, took)
}

// notFound answers paths that mean nothing.
func (a *API) notFound(w *response, r *request) error {
	return &statusError{http.StatusNotFound, &oci.Error{Code: oci.CodeNameUnknown, Message: "no such endpoint"}}
}

// methodNotAllowed answers methods that the path has no row for, and OPTIONS,
// which browsers send without credentials.
func (a *API) methodNotAllowed(w *response, r *request) error {
	w.Header().Set("Allow", a.allowed(a.locate(r.URL).place))
	if r.Method != http.MethodOptions {
		return oci.NewError(oci.CodeUnsupported, nil)
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return nil
}

// allowed is the methods of a place, sorted.
func (a *API) allowed(at place) string {
	var methods []string
	for _, row := range a.rows() {
		if row.place == at && !(a.opts.ReadOnly && row.writes()) {
			methods = append(methods, row.method)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
