package request

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"slipway/relay/internal/refusal"
)

// WriteJSON answers with a value, with <, > and & as they are. The answer isn't cached.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil { // the relay's own types always encode
		status = http.StatusInternalServerError
		body.WriteString(`{"error":"Internal Server Error","errorCode":500,"success":false}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that is gone needs no answer
}

// Problem is the JSON of an error: Gotify's three fields, PushBits' flag, a code for programs and the field that is
// wrong.
type Problem struct {
	Error       string `json:"error"`
	ErrorCode   int    `json:"errorCode"`
	Description string `json:"errorDescription"`
	Success     bool   `json:"success"`
	Code        string `json:"code"`
	Field       string `json:"field,omitempty"`
}

// WriteError answers with the part of err that a client may read.
func WriteError(w http.ResponseWriter, err error) {
	p := ProblemOf(err)
	if id := w.Header().Get("X-Request-Id"); p.Code == string(refusal.KindInternal) && id != "" {
		p.Description = "An internal error occurred; the relay's log has the cause under request " + id + "."
	}
	RefusalHeaders(w, err)
	WriteJSON(w, p.ErrorCode, p)
}

// RefusalHeaders sets the headers of a refusal. Its body may have any form.
func RefusalHeaders(w http.ResponseWriter, err error) {
	h := w.Header()
	var refused *refusal.Error
	status := Status(refusal.KindOf(err))
	switch {
	case errors.As(err, &refused) && refused.RetryAfter > 0:
		h.Set("Retry-After", RetryAfter(refused.RetryAfter))
	case status == http.StatusServiceUnavailable:
		h.Set("Retry-After", RetryAfter(refusal.RetryAfter))
	}
	if status == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", `Bearer realm="relay"`)
	}
	if status == http.StatusRequestEntityTooLarge {
		h.Set("Connection", "close") // the rest of the body is not worth reading
	}
}

// ProblemOf returns what a client may know of err.
func ProblemOf(err error) Problem {
	kind := refusal.KindOf(err)
	status := Status(kind)
	p := Problem{Error: http.StatusText(status), ErrorCode: status, Code: string(kind)}
	var refused *refusal.Error
	if errors.As(err, &refused) && kind != refusal.KindInternal {
		p.Description, p.Field = refused.Message, refused.Field
	} else {
		p.Code, p.Description = string(refusal.KindInternal), "An internal error occurred; the relay's log has the cause."
	}
	return p
}

var statuses = map[refusal.Kind]int{
	refusal.KindInvalid:      http.StatusBadRequest,
	refusal.KindUnauthorized: http.StatusUnauthorized,
	refusal.KindForbidden:    http.StatusForbidden,
	refusal.KindNotFound:     http.StatusNotFound,
	refusal.KindConflict:     http.StatusConflict,
	refusal.KindTooLarge:     http.StatusRequestEntityTooLarge,
	refusal.KindMediaType:    http.StatusUnsupportedMediaType,
	refusal.KindMethod:       http.StatusMethodNotAllowed,
	refusal.KindTimeout:      http.StatusRequestTimeout,
	refusal.KindRateLimited:  http.StatusTooManyRequests,
	refusal.KindUnavailable:  http.StatusServiceUnavailable,
}

// Status returns the HTTP status of a kind of refusal.
func Status(kind refusal.Kind) int { return cmp.Or(statuses[kind], http.StatusInternalServerError) }

// RetryAfter returns the header's value for a time to wait: whole seconds, at least one.
func RetryAfter(wait time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
}
