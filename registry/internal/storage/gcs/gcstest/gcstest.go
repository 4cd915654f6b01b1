// Package gcstest makes fake-gcs-server honor preconditions as Google documents them, so that tests of locks can rely on them. The server
// itself ignores all but generations of uploads, and doesn't take signed requests that write.
package gcstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// Handler forwards requests to a fake-gcs-server and refuses those whose preconditions don't hold. All writes must come through one Handler,
// which runs one at a time. Resumable uploads have the preconditions of the server.
type Handler struct {
	target string
	proxy  *httputil.ReverseProxy

	mu sync.Mutex
}

// New returns a handler in front of the server at target, a URL without a path.
func New(target *url.URL) *Handler {
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	return &Handler{target: target.String(), proxy: proxy}
}

// refusal is an answer of Google's that ends a request.
type refusal struct {
	status int
	reason string
}

// Error implements error.
func (r *refusal) Error() string { return r.reason }

var (
	errPrecondition = &refusal{http.StatusPreconditionFailed, "At least one of the pre-conditions you specified did not hold."}
	errAbsent       = &refusal{http.StatusNotFound, "No such object."}
)

func bad(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		h.proxy.ServeHTTP(w, r)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.write(w, r); err != nil {
		refused, ok := err.(*refusal) //nolint:errorlint // it is never wrapped
		if !ok {
			refused = &refusal{http.StatusBadGateway, err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(refused.status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": refused.status, "message": refused.reason}})
	}
}

// write checks a request and forwards it.
func (h *Handler) write(w http.ResponseWriter, r *http.Request) error {
	path, query := r.URL.EscapedPath(), r.URL.Query()
	var err error
	switch {
	case strings.HasPrefix(path, "/upload/storage/v1/b/"):
		err = h.upload(r, query)
	case !strings.HasPrefix(path, "/storage/v1/"):
		return h.xml(w, r)
	case !strings.Contains(path, "/o/"): // of a bucket
	case strings.HasSuffix(path, "/compose"):
		err = h.compose(r, strings.TrimSuffix(path, "/compose"), query)
	case strings.Contains(path, "/rewriteTo/b/"), strings.Contains(path, "/copyTo/b/"):
		err = h.rewrite(path, query)
	default:
		return h.remove(w, r, path, query)
	}
	if err != nil {
		return err
	}
	h.proxy.ServeHTTP(w, r)
	return nil
}

// remove deletes an object.
func (h *Handler) remove(w http.ResponseWriter, r *http.Request, path string, query url.Values) error {
	is, err := h.object(path)
	if err != nil {
		return err
	}
	if is.generation == 0 || query.Get("generation") != "" && query.Get("generation") != strconv.FormatInt(is.generation, 10) {
		return errAbsent
	}
	if err := is.check("if", query.Get); err != nil {
		return err
	}
	h.proxy.ServeHTTP(w, r)
	return nil
}

// upload checks the conditions of an upload by one request.
func (h *Handler) upload(r *http.Request, query url.Values) error {
	name := query.Get("name")
	switch query.Get("uploadType") {
	case "media":
	case "multipart":
		body, err := replay(r)
		if err != nil {
			return err
		}
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil {
			return bad("%v", err)
		}
		part, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).NextPart()
		if err != nil {
			return bad("%v", err)
		}
		var about struct{ Name string }
		if err := json.NewDecoder(part).Decode(&about); err != nil {
			return bad("%v", err)
		}
		if about.Name != "" {
			name = about.Name
		}
	default:
		return nil
	}
	is, err := h.object(strings.TrimPrefix(r.URL.EscapedPath(), "/upload") + "/" + url.PathEscape(name))
	if err != nil {
		return err
	}
	return is.check("if", query.Get)
}

// compose checks the sources of a composition, then the object that it makes.
func (h *Handler) compose(r *http.Request, path string, query url.Values) error {
	body, err := replay(r)
	if err != nil {
		return err
	}
	var request struct {
		SourceObjects []struct {
			Name                string
			Generation          string
			ObjectPreconditions map[string]string
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return bad("%v", err)
	}
	bucket, _, _ := strings.Cut(path, "/o/")
	for _, s := range request.SourceObjects {
		is, err := h.object(bucket + "/o/" + url.PathEscape(s.Name))
		if err != nil {
			return err
		}
		if err := is.source(s.Generation, "if", func(name string) string { return s.ObjectPreconditions[name] }); err != nil {
			return err
		}
	}
	is, err := h.object(path)
	if err != nil {
		return err
	}
	return is.check("if", query.Get)
}

// rewrite checks the source of a copy, then the object that it makes.
func (h *Handler) rewrite(path string, query url.Values) error {
	source, destination, ok := strings.Cut(path, "/rewriteTo/")
	if !ok {
		source, destination, _ = strings.Cut(path, "/copyTo/")
	}
	is, err := h.object(source)
	if err != nil {
		return err
	}
	if err := is.source(query.Get("sourceGeneration"), "ifSource", query.Get); err != nil {
		return err
	}
	if is, err = h.object("/storage/v1/" + destination); err != nil {
		return err
	}
	return is.check("if", query.Get)
}

// xml does a signed PUT or DELETE of the XML interface by the JSON interface. It doesn't check the signature.
func (h *Handler) xml(w http.ResponseWriter, r *http.Request) error {
	bucket, key, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok {
		return bad("no object is named")
	}
	is, err := h.object("/storage/v1/b/" + bucket + "/o/" + url.PathEscape(key))
	if err != nil {
		return err
	}
	condition := func(string) string { return r.Header.Get("X-Goog-If-Generation-Match") }
	switch r.Method {
	case http.MethodDelete:
		if is.generation == 0 {
			return errAbsent
		}
		if err := is.check("if", condition); err != nil {
			return err
		}
		return h.forward(w, r, http.MethodDelete, is.path, "", nil)
	case http.MethodPut:
		if err := is.check("if", condition); err != nil {
			return err
		}
		contentType, body, err := multipartOf(r, key)
		if err != nil {
			return err
		}
		return h.forward(w, r, http.MethodPost, "/upload/storage/v1/b/"+bucket+"/o?uploadType=multipart", contentType, body)
	}
	return &refusal{http.StatusMethodNotAllowed, "The XML interface has PUT and DELETE here."}
}

// multipartOf turns a PUT of the XML interface into an upload of the JSON interface.
func multipartOf(r *http.Request, key string) (contentType string, body []byte, err error) {
	metadata := map[string]string{}
	for name, values := range r.Header {
		if after, ok := strings.CutPrefix(name, "X-Goog-Meta-"); ok {
			metadata[strings.ToLower(after)] = values[0]
		}
	}
	about, err := json.Marshal(map[string]any{"name": key, "metadata": metadata})
	if err != nil {
		return "", nil, err
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for _, part := range []struct {
		contentType string
		content     []byte
	}{{"application/json", about}, {"application/octet-stream", content}} {
		p, err := m.CreatePart(textproto.MIMEHeader{"Content-Type": {part.contentType}})
		if err == nil {
			_, err = p.Write(part.content)
		}
		if err != nil {
			return "", nil, err
		}
	}
	if err := m.Close(); err != nil {
		return "", nil, err
	}
	return "multipart/related; boundary=" + m.Boundary(), b.Bytes(), nil
}

// forward sends a request to the server and answers as the XML interface does.
func (h *Handler) forward(w http.ResponseWriter, r *http.Request, method, path, contentType string, body []byte) error {
	req, err := http.NewRequestWithContext(r.Context(), method, h.target+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var about struct{ Generation string }
	_ = json.NewDecoder(resp.Body).Decode(&about) // a deletion has no body
	w.Header().Set("X-Goog-Generation", about.Generation)
	w.WriteHeader(resp.StatusCode)
	return nil
}

// replay reads the body of a request, which can be read again.
func replay(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// object is the live version of an object; its generation is 0 if there is none.
type object struct {
	path       string
	generation int64
}

// object asks the server for an object of the JSON interface.
func (h *Handler) object(path string) (object, error) {
	is := object{path: path}
	resp, err := http.Get(h.target + path) //nolint:noctx // the emulator answers
	if err != nil {
		return is, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return is, nil
	}
	var about struct{ Generation string }
	if err := json.NewDecoder(resp.Body).Decode(&about); err != nil {
		return is, fmt.Errorf("%s: %s: %w", path, resp.Status, err)
	}
	is.generation, err = strconv.ParseInt(about.Generation, 10, 64)
	return is, err
}

// source checks an object that is read: it must exist, in this generation unless that is "".
func (o object) source(generation, prefix string, condition func(string) string) error {
	if o.generation == 0 || generation != "" && generation != strconv.FormatInt(o.generation, 10) {
		return errAbsent
	}
	return o.check(prefix, condition)
}

// check checks the condition of the object's generation, which is 0 if there is none.
func (o object) check(prefix string, condition func(string) string) error {
	if want := condition(prefix + "GenerationMatch"); want != "" && want != strconv.FormatInt(o.generation, 10) {
		return errPrecondition
	}
	return nil
}
