package api

import (
	"bytes"
	"io"
	"net/http"
	"net/url"

	"github.com/gorilla/mux"
	"go.uber.org/zap"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	"slipway/shared/logging"
)

// pagesPath is the path of the pages, below the prefix.
const pagesPath = "/ui"

// PagesBase is the path before those of all pages, as browsers see it.
func (a *API) PagesBase() string { return a.links.Base() + pagesPath }

// Root is the absolute URL by which the sender of r reaches the registry, without /v2/.
func (a *API) Root(r *http.Request) string { return a.links.Absolute(r) }

// ServePages adds the pages for people. It must be called before the first request. The pages
// see their own paths, from /ui on, whatever the prefix is.
func (a *API) ServePages(pages http.Handler) {
	a.pages = http.StripPrefix(a.links.Prefix, pages)
	rows := []*row{{method: get, handle: a.getPage}, {method: head, handle: a.getPage}, {method: post, handle: a.getPage}}
	path := a.links.Prefix + pagesPath
	a.router.PathPrefix(path + "/").Handler(a.prepare(&endpoint{name: routePages, path: path + "/", rows: rows}, ""))
	a.router.Path(path).Handler(a.prepare(&endpoint{name: routeNone, path: path, rows: read(0, a.toPages)}, ""))
}

// toPages leads a browser to the first page.
func (a *API) toPages(w http.ResponseWriter, r *request) error {
	http.Redirect(w, r.Request, a.PagesBase()+"/", http.StatusSeeOther)
	return nil
}

func (a *API) getPage(w http.ResponseWriter, r *request) error {
	a.pages.ServeHTTP(w, r.Request)
	return nil
}

// Act makes the request of a page for a change to the API: method and path are those of a route
// below /v2, escaped. It is decided, limited, audited and announced like the same request of a client,
// but its caller is known: from has sent the page's form, and grant names them (nil =
// everybody may do everything). The error is what a client would have been told.
func (a *API) Act(from *http.Request, grant *auth.Grant, method, path, contentType string, body []byte) (http.Header, []byte, error) {
	r := from.Clone(from.Context())
	target, err := url.Parse(path)
	if err != nil {
		return nil, nil, err
	}
	r.Method = method
	r.URL = &url.URL{Path: a.links.Prefix + "/v2" + target.Path, RawQuery: target.RawQuery}
	r.RequestURI = r.URL.RequestURI()
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header = http.Header{"User-Agent": from.Header["User-Agent"], "Content-Type": {contentType}}
	for _, key := range []string{"Forwarded", "X-Forwarded-Proto", "X-Forwarded-Host"} {
		if values := from.Header[key]; values != nil {
			r.Header[key] = values
		}
	}
	row := a.rowOf(r)
	if row == nil {
		return nil, nil, oci.NewError(oci.CodeUnsupported, nil)
	}
	answer := &recorded{header: http.Header{}}
	logging.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { row.answer(w, r, grant) }), logging.Options{Log: zap.NewNop(), Panicked: panicked}).ServeHTTP(answer, r)
	if answer.status < 400 {
		return answer.header, answer.body.Bytes(), nil
	}
	return nil, nil, readError(answer.status, answer.body.Bytes())
}

// Download calls send, which sends a blob to a visitor of the pages, and notes it like the same request of a client: in the log, the audit
// log, the metrics and the events. grant names the visitor (nil = everybody may do everything).
func (a *API) Download(w http.ResponseWriter, from *http.Request, grant *auth.Grant, name oci.Name, d oci.Digest, size int64, send func()) {
	asked := from.Clone(from.Context())
	asked.URL = &url.URL{Path: a.links.Prefix + "/v2/" + string(name) + "/blobs/" + string(d)}
	row := a.rowOf(asked)
	r := &request{Request: from, rec: logging.RecorderOf(w), row: row, name: name, last: string(d), event: row.event, digest: d, admitted: true, grant: grant}
	if grant != nil {
		r.user = grant.User
	}
	row.metrics.Begin()
	defer r.end()
	send()
	a.emitBlobPull(r, d, size)
}

// recorded keeps what a handler answers.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *recorded) Header() http.Header { return a.header }

func (a *recorded) WriteHeader(status int) { a.status = status }

func (a *recorded) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.body.Write(p)
}

// rowOf is the row that answers a request, nil if there is none.
func (a *API) rowOf(r *http.Request) *row {
	var match mux.RouteMatch
	if !a.router.Match(r, &match) {
		return nil
	}
	e, ok := match.Handler.(*endpoint)
	if !ok {
		return nil
	}
	*r = *mux.SetURLVars(r, match.Vars)
	for _, row := range e.rows {
		if row.method == r.Method {
			return row
		}
	}
	return nil
}

// readError is the error in the body of an answer.
func readError(status int, body []byte) error {
	e := &oci.Error{Code: oci.CodeUnknown}
	if list := oci.ParseErrors(body); len(list) > 0 {
		e = list[0]
	}
	return &statusError{status, e}
}

// Status is the HTTP status of an error, and what a client is told about it.
func Status(err error) (status int, text string) {
	status, list := clientErrors(err)
	if detail, ok := list[0].Detail.(string); ok && list[0].Message == messageOf(list[0].Code) {
		return status, detail
	}
	return status, list[0].Text()
}

// messageOf is the usual message of a code.
func messageOf(code oci.Code) string { return oci.NewError(code, nil).Text() }
