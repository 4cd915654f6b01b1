package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"slipway/registry/internal/api/metrics"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	"slipway/shared/logging"
	"slipway/shared/tracing"
)

// handler answers one request or returns why it cannot.
type handler func(http.ResponseWriter, *request) error

// row is one method of an endpoint. Its action is the permission it needs, so that none goes
// without one.
type row struct {
	method string
	action auth.Action          // 0 = open to everybody
	only   func(*request) error // returns why a caller with the right for the action may not; nil = all of them may
	handle handler
	event  string // logged when it succeeds

	api      *API
	endpoint *endpoint
	metrics  *metrics.Row
}

// endpoint is a path of the API with the methods it takes.
type endpoint struct {
	name string // in metrics, as in CNCF distribution
	path string // a pattern of gorilla/mux; below the prefix, except for those outside /v2
	last string // the variable in the path besides the name, "" if there is none
	rows []*row

	api   *API
	route string // the whole path, "" for unknown ones
	wrong *row   // answers other methods
}

// Names of endpoints.
const (
	routeNone     = "none"
	routeHealth   = "health"
	routePages    = "pages"
	routeManifest = "manifest"
	routeBlob     = "blob"
	routeUploads  = "blob_upload"
)

// repositoryPath begins the paths of a repository. Names aren't checked here: an invalid one
// gets NAME_INVALID.
const repositoryPath = "/{name}"

// robotsPath is the path at which robots are managed. No name of a repository begins with an underscore.
const robotsPath = "/_slipway/robots"

const get, head, post, put, patch, del = http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete

// read makes the rows of GET and HEAD.
func read(action auth.Action, handle handler) []*row {
	return []*row{{method: get, action: action, handle: handle}, {method: head, action: action, handle: handle}}
}

// v2 is the API below /v2, in the order in which paths are tried: the endpoints most asked for
// come first, and uploads before the blobs that their path could name.
func (a *API) v2() []*endpoint {
	return append([]*endpoint{
		{name: routeManifest, path: repositoryPath + "/manifests/{reference}", last: "reference", rows: []*row{
			{method: get, action: auth.Pull, handle: a.getManifest, event: "pull"},
			{method: head, action: auth.Pull, handle: a.getManifest},
			{method: put, action: auth.Push, handle: a.putManifest, event: "push"},
			{method: del, action: auth.Delete, handle: a.deleteManifest, event: "delete"},
		}},
		{name: routeUploads, path: repositoryPath + "/blobs/uploads/", rows: []*row{
			{method: post, action: auth.Push, handle: a.startUpload},
		}},
		{name: routeUploads, path: repositoryPath + "/blobs/uploads", rows: []*row{
			{method: post, action: auth.Push, handle: a.startUpload},
		}},
		{name: routeBlob, path: repositoryPath + "/blobs/{digest}", last: "digest", rows: []*row{
			{method: get, action: auth.Pull, handle: a.getBlob, event: "pull"},
			{method: head, action: auth.Pull, handle: a.headBlob},
			{method: del, action: auth.Delete, handle: a.deleteBlob, event: "delete"},
		}},
		{name: "blob_upload_chunk", path: repositoryPath + "/blobs/uploads/{uuid}", last: "uuid", rows: append(
			read(auth.Push, a.getUpload),
			&row{method: patch, action: auth.Push, handle: a.patchUpload},
			&row{method: put, action: auth.Push, handle: a.putUpload, event: "push"},
			&row{method: del, action: auth.Push, handle: a.deleteUpload},
		)},
		{name: "base", path: "/", rows: read(auth.Ping, a.getBase)},
		{name: "catalog", path: "/_catalog", rows: read(auth.Catalog, a.getCatalog)},
		{name: routeNone, path: "/_catalog/", rows: read(0, a.redirect)},
		{name: "tags", path: repositoryPath + "/tags/list", rows: read(auth.Pull, a.listTags)},
		{name: routeNone, path: repositoryPath + "/tags/list/", rows: read(0, a.redirect)},
		{name: "referrers", path: repositoryPath + "/referrers/{digest}", last: "digest", rows: read(auth.Pull, a.listReferrers)},
		{name: "repository", path: repositoryPath + "/_slipway/repository", rows: []*row{
			{method: del, action: auth.Delete, handle: a.deleteRepository, event: "delete"},
		}},
		{name: "deleted", path: "/_slipway/deleted", rows: read(auth.Ping, a.listAllDeleted)},
		{name: "deleted", path: repositoryPath + "/_slipway/deleted", rows: read(auth.Push, a.listDeleted)},
		{name: "restore", path: repositoryPath + "/_slipway/restore", rows: []*row{
			{method: post, action: auth.Push, handle: a.restore, event: "restore"},
		}},
		{name: "history", path: repositoryPath + "/_slipway/tags/{tag}/history", last: "tag", rows: read(auth.Pull, a.getHistory)},
	}, slices.Concat(a.robots(), a.users(), a.personalTokens(), a.rights(), a.jobs(), a.usage())...)
}

func (a *API) robots() []*endpoint {
	if a.opts.Robots == nil {
		return nil
	}
	return []*endpoint{
		{name: "robots", path: robotsPath, last: "robot", rows: []*row{
			{method: get, action: auth.Administer, handle: a.listRobots},
			{method: post, action: auth.Administer, handle: a.once(a.createRobot), event: "robot created"},
		}},
		{name: "robots", path: robotsPath + "/{robot:[^/]+}", last: "robot", rows: []*row{
			{method: del, action: auth.Administer, handle: a.revokeRobot, event: "robot deleted"},
		}},
		{name: "robots", path: robotsPath + "/{robot:[^/]+}/secret", last: "robot", rows: []*row{
			{method: post, action: auth.Administer, handle: a.once(a.rotateRobot), event: "robot rotated"},
		}},
	}
}

// outside returns the endpoints outside /v2/.
func (a *API) outside() []*endpoint {
	all := []*endpoint{
		{name: "root", path: "/", rows: read(0, a.getRoot)},
		{name: routeNone, path: a.links.Prefix + "/v2", rows: read(0, a.redirect)},
		{name: "openapi", path: a.links.Prefix + "/openapi.yml", rows: read(0, a.getOpenAPI)},
	}
	if a.links.Prefix != "" {
		all = append(all, &endpoint{name: "root", path: a.links.Prefix + "/", rows: read(0, a.getRoot)})
	}
	if a.opts.Health != nil {
		all = append(all, &endpoint{name: routeHealth, path: "/debug/health", rows: read(0, a.getHealth)})
	}
	if a.opts.Tokens != nil {
		all = append(all, &endpoint{name: "token", path: a.links.Prefix + TokenPath, rows: []*row{
			{method: get, handle: a.getToken}, {method: post, handle: a.postToken},
		}})
	}
	return all
}

// newRouter routes by the decoded path, as CNCF distribution does: clients that take a name for
// one element of the path escape its slashes. An unknown path is a row too, so that it is
// answered, counted and logged like any other.
func (a *API) newRouter() *mux.Router {
	router := mux.NewRouter().SkipClean(true)
	root := a.links.Prefix + "/v2"
	v2 := router.PathPrefix(root).Subrouter()
	for _, e := range a.v2() {
		if strings.HasPrefix(e.path, repositoryPath) {
			v2.MatcherFunc(e.matchRepository(root + "/")).Handler(a.prepare(e, root))
		} else {
			v2.Path(e.path).Handler(a.prepare(e, root))
		}
	}
	for _, e := range a.outside() {
		router.Path(e.path).Handler(a.prepare(e, ""))
	}
	unknown := &endpoint{name: routeNone, rows: []*row{{method: "any", handle: a.notFound}}}
	a.prepare(unknown, "")
	router.NotFoundHandler = unknown.rows[0]
	return router
}

// matchRepository matches the paths below a repository. It compares element by element from the
// end, because names may contain the words of the API: the repository of /v2/tags/list/tags/list is
// tags/list. The regular expressions of mux would take a quarter of the CPU of a manifest GET.
func (e *endpoint) matchRepository(root string) mux.MatcherFunc {
	elements := strings.Split(strings.TrimPrefix(e.path, repositoryPath+"/"), "/")
	return func(r *http.Request, match *mux.RouteMatch) bool {
		rest, last := r.URL.Path, ""
		for _, element := range slices.Backward(elements) {
			slash := strings.LastIndexByte(rest, '/')
			if slash < 0 {
				return false
			}
			found := rest[slash+1:]
			if strings.HasPrefix(element, "{") && found != "" {
				last = found
			} else if found != element {
				return false
			}
			rest = rest[:slash]
		}
		name, ok := strings.CutPrefix(rest, root)
		if !ok || name == "" {
			return false
		}
		match.Vars = map[string]string{"name": name, e.last: last}
		return true
	}
}

// prepare makes e ready to answer. Its path is below root.
func (a *API) prepare(e *endpoint, root string) *endpoint {
	e.api, e.route, e.wrong = a, root+e.path, &row{method: "any", handle: a.methodNotAllowed}
	for _, r := range append([]*row{e.wrong}, e.rows...) {
		r.api, r.endpoint = a, e
		r.metrics = a.opts.Metrics.Row(e.name, r.method)
	}
	e.wrong.metrics = a.opts.Metrics.Row(routeNone, e.wrong.method)
	return e
}

// ServeHTTP answers by the row of the method.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, row := range e.rows {
		if row.method == r.Method {
			row.ServeHTTP(w, r)
			return
		}
	}
	e.wrong.ServeHTTP(w, r)
}

// writes reports whether the row changes what is stored.
func (row *row) writes() bool {
	return (row.action == auth.Push || row.action == auth.Delete) && row.method != http.MethodGet && row.method != http.MethodHead
}

// allows returns what only returns.
func (row *row) allows(r *request) error {
	if row.only == nil {
		return nil
	}
	return row.only(r)
}

// sends reports whether the row takes bytes that are kept.
func (row *row) sends() bool {
	return row.action == auth.Push && row.writes() && row.method != http.MethodDelete
}

// ServeHTTP is the one way through the API: headers, health, authorization,
// handler, error, log and count.
func (row *row) ServeHTTP(w http.ResponseWriter, hr *http.Request) { row.answer(w, hr, nil) }

// answer answers a request. grant names its caller; nil makes the row identify the caller.
func (row *row) answer(w http.ResponseWriter, hr *http.Request, grant *auth.Grant) {
	r := &request{Request: hr, rec: logging.RecorderOf(w), row: row, event: row.event, grant: grant}
	row.metrics.Begin()
	defer r.end()
	tracing.Route(hr, row.endpoint.route)
	h := w.Header()
	for _, common := range row.api.headers {
		h[common.key] = common.values
	}
	if row.endpoint.name == routePages { // elsewhere, their CSRF tokens could be read
		delete(h, allowOrigin)
	}
	if err := row.serve(w, r); err != nil {
		r.fail(w, err)
	}
}

// serve does what comes before the handler, cheapest first. Whether deletion
// or writing is possible at all is told to callers that may delete or write.
func (row *row) serve(w http.ResponseWriter, r *request) error {
	a := row.api
	if row.endpoint.name != routeHealth && a.opts.Health != nil && !a.opts.Health.Ready() {
		w.Header().Set("Retry-After", "10")
		return oci.Explain(oci.CodeUnavailable, "health check failed: see the log, or /debug/health on http.debug.addr")
	}
	if err := r.locate(); err != nil {
		return a.orClean(w, r, err)
	}
	if r.isForeign() {
		return r.refused(w, &auth.Refusal{Reason: auth.ForeignPage, Err: oci.Explain(oci.CodeDenied, "a change sent by a page of another site is refused, unless http.headers names its origin and the method")})
	}
	endAddress, err := a.opts.Limits.Address(r.Request, row.sends())
	if err != nil {
		return a.tooMany(w, r, err)
	}
	defer endAddress()
	if err := a.authorize(w, r); err != nil {
		return err
	}
	r.admitted = true
	endUser, err := a.opts.Limits.User(r.user, row.sends())
	if err != nil {
		return a.tooMany(w, r, err)
	}
	defer endUser()
	switch {
	case row.writes() && a.opts.ReadOnly:
		w.Header().Set("Allow", "GET, HEAD")
		return oci.Explain(oci.CodeUnsupported, "the registry is read-only (storage.maintenance.readonly.enabled)")
	case row.writes() && a.opts.Proxy != nil && a.opts.Proxy.Caches(r.name):
		w.Header().Set("Allow", "GET, HEAD")
		return oci.Explain(oci.CodeUnsupported, "the repository is a cache of another registry: push to that one")
	case row.action == auth.Delete && !a.opts.DeleteEnabled:
		w.Header().Set("Allow", row.endpoint.allowed())
		return oci.Explain(oci.CodeUnsupported, "deletion is off in this registry (storage.delete.enabled)")
	}
	if err := row.allows(r); err != nil {
		return err
	}
	err = row.handle(w, r)
	if r.literal == "" || row.writes() || !oci.IsUnknown(err) && !oci.HasCode(err, oci.CodeDenied) {
		return err
	}
	here := r.name
	if r.name = r.literal; r.grant != nil && a.opts.Auth.Confirm(r.Request, r.grant, r.access()) != nil {
		r.name = here // the second meaning was a guess, so no refusal is noted
		return err
	}
	return row.handle(w, r)
}

// locate reads the variables of the path.
func (r *request) locate() (err error) {
	vars := mux.Vars(r.Request)
	r.last = vars[r.row.endpoint.last]
	name, ok := vars["name"]
	if !ok || r.row.action == 0 {
		return nil
	}
	if r.name, err = oci.ParseName(name); err == nil && r.URL.RawQuery != "" {
		if namespace := r.param("ns"); namespace != "" && r.row.api.opts.Proxy != nil {
			a := r.row.api
			own := a.links.Own(r.Request, namespace, a.opts.Namespaces)
			r.name, r.literal, err = a.opts.Proxy.Within(namespace, own, r.name)
		}
	}
	return err
}

// end notes the request. It runs when the handler cuts the connection or
// panics, too; the code that recovers a panic logs it.
func (r *request) end() {
	status := http.StatusInternalServerError
	if r.rec.Began() {
		status = r.rec.Status()
		r.logEnd(status)
	}
	r.audit(status)
	if a := r.row.api; a.opts.Proxy != nil && r.event == "pull" && status/100 == 2 {
		a.opts.Proxy.Sent(r.name, r.row.endpoint.name == routeBlob, r.rec.Bytes())
	}
	r.row.metrics.End(r.Request, status, r.rec.Bytes(), r.rec.Elapsed())
}

// notFound answers paths that mean nothing.
func (a *API) notFound(w http.ResponseWriter, r *request) error {
	return a.orClean(w, r, &statusError{http.StatusNotFound, oci.Explain(oci.CodeNameUnknown, "no such path; the API is below /v2/")})
}

// methodNotAllowed answers methods that the path has no row for, and OPTIONS,
// which browsers send without credentials.
func (a *API) methodNotAllowed(w http.ResponseWriter, r *request) error {
	w.Header().Set("Allow", r.row.endpoint.allowed())
	if r.Method != http.MethodOptions {
		return oci.Explain(oci.CodeUnsupported, "this path does not support the method "+r.Method)
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return nil
}

// allowed lists the methods that can succeed, sorted.
func (e *endpoint) allowed() string {
	var methods []string
	for _, row := range e.rows {
		refused := e.api.opts.ReadOnly && row.writes() || !e.api.opts.DeleteEnabled && row.action == auth.Delete
		if !refused {
			methods = append(methods, row.method)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
