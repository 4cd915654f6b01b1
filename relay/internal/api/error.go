package api

import (
	"errors"
	"net/http"
	"time"

	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/refusal"
)

// defaultRetryAfter is when to try again, unless the rules say otherwise.
const defaultRetryAfter = 5 * time.Second

// errMethod is the answer to a method that a path does not know.
var errMethod = &statusError{http.StatusMethodNotAllowed, "method_not_allowed", "This path does not support the method."}

// errMedia is the answer to a body in a form that is not understood.
var errMedia = &statusError{http.StatusUnsupportedMediaType, "unsupported_media_type", `The body must be JSON such as {"message": "text"}, a form, or a text with "Content-Type: text/plain".`}

// statusError is a refusal that only HTTP knows.
type statusError struct {
	status        int
	code, message string
}

func (e *statusError) Error() string { return e.message }

func statusOf(err error) int {
	if e := (*statusError)(nil); errors.As(err, &e) {
		return e.status
	}
	return httprequest.Status(refusal.KindOf(err))
}

// problem is what a client reads: Gotify's three fields, PushBits' flag, a code
// for programs and the field that is wrong.
type problem struct {
	Error       string `json:"error"`
	ErrorCode   int    `json:"errorCode"`
	Description string `json:"errorDescription"`
	Success     bool   `json:"success"`
	Code        string `json:"code"`
	Field       string `json:"field,omitempty"`
}

// writeError answers with what a client may know of err.
func writeError(w http.ResponseWriter, err error) {
	p := problemOf(err)
	h := w.Header()
	var refused *refusal.Error
	switch {
	case errors.As(err, &refused) && refused.RetryAfter > 0:
		h.Set("Retry-After", httprequest.RetryAfter(refused.RetryAfter))
	case p.ErrorCode == http.StatusServiceUnavailable:
		h.Set("Retry-After", httprequest.RetryAfter(defaultRetryAfter))
	}
	if p.ErrorCode == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", `Bearer realm="relay"`)
	}
	if p.ErrorCode == http.StatusRequestEntityTooLarge {
		h.Set("Connection", "close") // the rest of the body is not worth reading
	}
	writeJSON(w, p.ErrorCode, p)
}

func problemOf(err error) problem {
	status := statusOf(err)
	p := problem{Error: http.StatusText(status), ErrorCode: status, Code: string(refusal.KindOf(err))}
	var own *statusError
	var refused *refusal.Error
	switch {
	case errors.As(err, &own):
		p.Code, p.Description = own.code, own.message
	case errors.As(err, &refused) && refused.Kind != refusal.KindInternal:
		p.Description, p.Field = refused.Message, refused.Field
	default:
		p.Code, p.Description = string(refusal.KindInternal), "An internal error occurred; the relay's log has the cause."
	}
	return p
}
