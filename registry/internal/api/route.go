package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	"slipway/shared/logging"
)

// handler answers one request or returns why it cannot.
type handler func(http.ResponseWriter, *request) error

// row is one route. Its action is the permission it needs, so that no route
// goes without one.
type row struct {
	method string
	place  place
	action auth.Action // 0 = open to everybody
	handle handler
	event  string // logged when it succeeds

	api     *API
	metrics *rowMetrics
}

// rows is the whole API; the routes most asked for come first.
func (a *API) rows() []*row {
	const get, head, post, put, patch, del = http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	return []*row{
		{method: get, place: atManifest, action: auth.Pull, handle: a.getManifest, event: "pull"},
		{method: head, place: atManifest, action: auth.Pull, handle: a.getManifest},
		{method: get, place: atBlob, action: auth.Pull, handle: a.getBlob, event: "pull"},
		{method: head, place: atBlob, action: auth.Pull, handle: a.headBlob},
		{method: post, place: atUploads, action: auth.Push, handle: a.startUpload},
		{method: patch, place: atUpload, action: auth.Push, handle: a.patchUpload},
		{method: put, place: atUpload, action: auth.Push, handle: a.putUpload, event: "push"},
		{method: get, place: atUpload, action: auth.Push, handle: a.getUpload},
		{method: head, place: atUpload, action: auth.Push, handle: a.getUpload},
		{method: del, place: atUpload, action: auth.Push, handle: a.deleteUpload},
		{method: put, place: atManifest, action: auth.Push, handle: a.putManifest, event: "push"},
		{method: del, place: atManifest, action: auth.Delete, handle: a.deleteManifest, event: "delete"},
		{method: del, place: atBlob, action: auth.Delete, handle: a.deleteBlob, event: "delete"},
		{method: del, place: atRepository, action: auth.Delete, handle: a.deleteRepository, event: "delete"},
		{method: get, place: atBase, action: auth.Ping, handle: a.getBase},
		{method: head, place: atBase, action: auth.Ping, handle: a.getBase},
		{method: get, place: atTags, action: auth.Pull, handle: a.listTags},
		{method: head, place: atTags, action: auth.Pull, handle: a.listTags},
		{method: get, place: atReferrers, action: auth.Pull, handle: a.listReferrers},
		{method: head, place: atReferrers, action: auth.Pull, handle: a.listReferrers},
		{method: get, place: atCatalog, action: auth.Catalog, handle: a.getCatalog},
		{method: head, place: atCatalog, action: auth.Catalog, handle: a.getCatalog},
		{method: get, place: atToken, handle: a.getToken},
		{method: post, place: atToken, handle: a.postToken},
		{method: get, place: atRobots, action: auth.Administer, handle: a.listRobots},
		{method: post, place: atRobots, action: auth.Administer, handle: a.createRobot, event: "robot created"},
		{method: del, place: atRobot, action: auth.Administer, handle: a.revokeRobot, event: "robot revoked"},
		{method: get, place: atHealth, handle: a.getHealth},
		{method: head, place: atHealth, handle: a.getHealth},
		{method: get, place: atRoot, handle: a.getRoot},
		{method: head, place: atRoot, handle: a.getRoot},
		{method: get, place: atRedirect, handle: a.redirect},
		{method: head, place: atRedirect, handle: a.redirect},
	}
}

// names are the rows' names in metrics, those of CNCF distribution.
var names = map[place]string{
	nowhere: "none", atRoot: "root", atRedirect: "none", atHealth: "health", atBase: "base", atCatalog: "catalog", atTags: "tags",
	atManifest: "manifest", atBlob: "blob", atUploads: "blob_upload", atUpload: "blob_upload_chunk", atReferrers: "referrers",
	atRepository: "repository", atToken: "token", atRobots: "robots", atRobot: "robots",
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
	router.NotFoundHandler = a.prepare(&row{method: "any", handle: a.notFound})
	router.MethodNotAllowedHandler = a.prepare(&row{method: "any", handle: a.methodNotAllowed})
	return router
}

func (a *API) prepare(row *row) *row {
	row.api = a
	row.metrics = a.opts.Metrics.row(names[row.place], row.method)
	return row
}

// writes says whether the row changes what is stored.
func (row *row) writes() bool {
	return (row.action == auth.Push || row.action == auth.Delete) && row.method != http.MethodGet && row.method != http.MethodHead
}

// sends says whether the row takes bytes that are kept.
func (row *row) sends() bool {
	return row.action == auth.Push && row.writes() && row.method != http.MethodDelete
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
	case atRobots, atRobot:
		return "vars.robot"
	default:
		return ""
	}
}

// ServeHTTP is the one way through the API: headers, health, authorization,
// handler, error, log and count.
func (row *row) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	r := &request{Request: hr, rec: logging.RecorderOf(w), row: row, event: row.event}
	row.metrics.begin()
	defer r.end()
	h := w.Header()
	for _, common := range row.api.headers {
		h[common.key] = common.values
	}
	if origin := hr.Header["Origin"]; origin != nil && row.api.opts.CORS.allow(h, origin[0]) && hr.Method == http.MethodOptions {
		row.api.opts.CORS.preflight(h)
	}
	if err := row.serve(w, r); err != nil {
		r.fail(w, err)
	}
}

// serve does what comes before the handler, cheapest first. Whether deletion
// or writing is possible at all is told to whoever may delete or write.
func (row *row) serve(w http.ResponseWriter, r *request) error {
	a := row.api
	if row.place != atHealth && a.opts.Health != nil && !a.opts.Health.Ready() {
		w.Header().Set("Retry-After", "10")
		return oci.NewError(oci.CodeUnavailable, "health check failed: please see /debug/health")
	}
	if err := r.locate(); err != nil {
		return a.orClean(w, r, err)
	}
	if a.opts.CORS.refuses(r.Request) {
		return r.refused(w, &auth.Refusal{Reason: auth.ForeignPage, Err: oci.NewError(oci.CodeDenied, "a change sent by a page of another site is refused, unless http.cors allows it")})
	}
	endAddress, err := a.opts.Limits.Address(r.Request, row.sends())
	if err != nil {
		return a.tooMany(w, r, err)
	}
	defer endAddress()
	if err := a.authorize(w, r); err != nil {
		return err
	}
	endUser, err := a.opts.Limits.User(r.user, row.sends())
	if err != nil {
		return a.tooMany(w, r, err)
	}
	defer endUser()
	switch {
	case row.writes() && a.opts.ReadOnly:
		w.Header().Set("Allow", "GET, HEAD")
		return oci.NewError(oci.CodeUnsupported, "the registry is read-only")
	case row.action == auth.Delete && !a.opts.DeleteEnabled:
		w.Header().Set("Allow", a.allowed(row.place))
		return oci.NewError(oci.CodeUnsupported, "deletion is disabled")
	}
	return row.handle(w, r)
}

// locate reads repository and last element out of the path.
func (r *request) locate() (err error) {
	to := r.row.api.locate(r.URL)
	r.last = to.last
	if to.name == "" || r.row.action == 0 {
		return nil
	}
	if r.name, err = oci.ParseName(to.name); err == nil && r.URL.RawQuery != "" {
		if namespace := r.param("ns"); namespace != "" {
			r.name, err = r.row.api.opts.Registry.Within(namespace, r.name)
		}
	}
	return err
}

// end notes the request. It runs when the handler cuts the connection or
// panics, too; of a panic whoever recovers it writes a line.
func (r *request) end() {
	status := http.StatusInternalServerError
	if r.rec.Began() {
		status = r.rec.Status()
		r.logEnd(status)
	}
	r.audit(status)
	r.row.metrics.end(r.Request, status, r.rec.Bytes(), r.rec.Elapsed())
}

// notFound answers paths that mean nothing.
func (a *API) notFound(w http.ResponseWriter, r *request) error {
	return a.orClean(w, r, &statusError{http.StatusNotFound, &oci.Error{Code: oci.CodeNameUnknown, Message: "no such endpoint"}})
}

// methodNotAllowed answers methods that the path has no row for, and OPTIONS,
// which browsers send without credentials.
func (a *API) methodNotAllowed(w http.ResponseWriter, r *request) error {
	w.Header().Set("Allow", a.allowed(a.locate(r.URL).place))
	if r.Method != http.MethodOptions {
		return oci.NewError(oci.CodeUnsupported, nil)
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return nil
}

// allowed is the methods of a place that can succeed, sorted.
func (a *API) allowed(at place) string {
	var methods []string
	for _, row := range a.rows() {
		refused := a.opts.ReadOnly && row.writes() || !a.opts.DeleteEnabled && row.action == auth.Delete
		if row.place == at && !refused {
			methods = append(methods, row.method)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
