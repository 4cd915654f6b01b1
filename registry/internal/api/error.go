package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/shared/logging"
)

// statuses maps codes to HTTP. BLOB_UPLOAD_INVALID is 404 in CNCF distribution,
// and clients start the upload again on it.
var statuses = map[oci.Code]int{
	oci.CodeUnknown:             http.StatusInternalServerError,
	oci.CodeUnsupported:         http.StatusMethodNotAllowed,
	oci.CodeUnauthorized:        http.StatusUnauthorized,
	oci.CodeDenied:              http.StatusForbidden,
	oci.CodeUnavailable:         http.StatusServiceUnavailable,
	oci.CodeTooManyRequests:     http.StatusTooManyRequests,
	oci.CodeDigestInvalid:       http.StatusBadRequest,
	oci.CodeSizeInvalid:         http.StatusBadRequest,
	oci.CodeRangeInvalid:        http.StatusRequestedRangeNotSatisfiable,
	oci.CodeNameInvalid:         http.StatusBadRequest,
	oci.CodeNameUnknown:         http.StatusNotFound,
	oci.CodeTagInvalid:          http.StatusBadRequest,
	oci.CodeManifestUnknown:     http.StatusNotFound,
	oci.CodeManifestInvalid:     http.StatusBadRequest,
	oci.CodeManifestBlobUnknown: http.StatusBadRequest,
	oci.CodeBlobUnknown:         http.StatusNotFound,
	oci.CodeBlobUploadUnknown:   http.StatusNotFound,
	oci.CodeBlobUploadInvalid:   http.StatusNotFound,
	oci.CodePaginationInvalid:   http.StatusBadRequest,
}

// statusError is an error whose status is not the usual one of its code.
type statusError struct {
	status int
	err    *oci.Error
}

func (e *statusError) Error() string { return e.err.Error() }

// Unwrap keeps the *oci.Error within reach of errors.As.
func (e *statusError) Unwrap() error { return e.err }

// statusClientGone is written into logs and metrics, never to a client.
const statusClientGone = 499

// Of clients whose request or answer did not get to its end.
var (
	errClientGone    = errors.New("the client went away")
	errClientStalled = errors.New("the client stalled and was cut off")
)

// clientFailed is the error of a transfer that failed at the client's end.
func clientFailed(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: %w", errClientStalled, err)
	}
	return fmt.Errorf("%w: %w", errClientGone, err)
}

// clientErrors returns the error for the client, and the status. An error that isn't made for
// clients becomes UNKNOWN and nothing more.
func clientErrors(err error) (int, oci.Errors) {
	err = registry.Fault(err)
	var list oci.Errors
	var one *oci.Error
	switch {
	case errors.As(err, &list):
	case errors.As(err, &one):
		list = oci.Errors{one}
	default:
		list = oci.Errors{oci.NewError(oci.CodeUnknown, nil)}
	}
	status := statuses[list[0].Code]
	var special *statusError
	switch {
	case errors.As(err, &special):
		status = special.status
	case errors.Is(err, oci.ErrUpstream):
		status = http.StatusBadGateway
	case errors.Is(err, registry.ErrImmutable):
		status = http.StatusConflict
	case status == 0:
		status = http.StatusInternalServerError
	}
	return status, list
}

// panicked answers a request whose handler panicked.
func panicked(w http.ResponseWriter, r *http.Request) {
	x := &request{Request: r, rec: logging.RecorderOf(w)}
	x.fail(w, errPanic)
}

var errPanic = errors.New("a handler panicked")

// fail answers err, once, in the one place where errors become HTTP. Where the
// answer has begun, or nobody is left to read one, the connection is cut: the
// client must see a broken transfer, never a short success.
func (r *request) fail(w http.ResponseWriter, err error) {
	err = registry.Fault(err)
	r.err, r.gone, r.stalled = err, clientGone(r, err), errors.Is(err, os.ErrDeadlineExceeded)
	if r.gone && !r.rec.Began() {
		w.WriteHeader(statusClientGone)
	}
	if r.rec.Began() {
		panic(http.ErrAbortHandler)
	}
	status, list := clientErrors(err)
	if one := *list[0]; status == http.StatusInternalServerError && one.Code == oci.CodeUnknown && one.Detail == nil {
		one.Message = one.Text() + "; the log has the cause under request ID " + r.rec.ID()
		list = oci.Errors{&one}
	}
	switch h := w.Header(); {
	case list[0].RetryAfter > 0:
		h["Retry-After"] = []string{strconv.Itoa(max(int(list[0].RetryAfter.Seconds()), 1))}
	case status == http.StatusServiceUnavailable && h["Retry-After"] == nil:
		h["Retry-After"] = []string{"1"}
	case status == http.StatusMethodNotAllowed && h["Allow"] == nil:
		h["Allow"] = []string{"GET, HEAD"} // of a repository that cannot be changed
	}
	w.Header()["X-Request-Id"] = []string{r.rec.ID()}
	_ = writeBody(w, r, status, contentTypeJSON, list.Body()) // the client has left
}

// clientGone tells a broken connection from a fault of ours.
func clientGone(r *request, err error) bool {
	if r.Context().Err() != nil {
		return true
	}
	for _, reason := range []error{errClientGone, errClientStalled, syscall.EPIPE, syscall.ECONNRESET, os.ErrDeadlineExceeded, net.ErrClosed} {
		if errors.Is(err, reason) {
			return true
		}
	}
	var op *net.OpError // also of a file that could not be read while it was sent, as NFS says after its timeout
	return errors.Is(err, syscall.ETIMEDOUT) && errors.As(err, &op) && op.Op == "write"
}

var contentTypeJSON = []string{"application/json"}

// writeJSON answers with a document of JSON.
func writeJSON(w http.ResponseWriter, r *request, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeBody(w, r, status, contentTypeJSON, append(body, '\n'))
}

// writeBody answers with a document.
func writeBody(w http.ResponseWriter, r *request, status int, contentType []string, body []byte) error {
	h := w.Header()
	h["Content-Type"] = contentType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err := w.Write(body); err != nil {
		return clientFailed(err)
	}
	return nil
}

// code returns the error's code, "" for no error.
func code(err error) oci.Code {
	if err == nil {
		return ""
	}
	_, list := clientErrors(err)
	return list[0].Code
}
