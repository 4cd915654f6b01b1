package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/retryafter"
)

// Reason classifies a failure of an upstream. It is a closed set, fit for a metric's label.
type Reason string

// The reasons.
const (
	Down     Reason = "down"     // no connection, or one that broke
	Slow     Reason = "slow"     // no answer in time, or one that paused too long
	Fault    Reason = "fault"    // 5xx
	Limited  Reason = "limited"  // 429
	Login    Reason = "login"    // the configured login is refused, or can't be had
	Realm    Reason = "realm"    // the token server that it names isn't trusted
	Denied   Reason = "denied"   // 401 or 403: not for this login, or not without one
	NotFound Reason = "notfound" // 404: an answer like any other
	Invalid  Reason = "invalid"  // an answer that makes no sense, or bytes of another digest
)

// Reasons returns all reasons that are failures.
func Reasons() []Reason { return []Reason{Down, Slow, Fault, Limited, Login, Realm, Denied, Invalid} }

// Error is a request to an upstream that failed.
type Error struct {
	Reason     Reason
	Status     int           // 0 without an answer
	RetryAfter time.Duration // 0 unless the upstream sent one
	Err        error         // for the log

	own        bool     // the registry itself answered, not one that it redirects to
	challenges []string // of a 401 of its own
}

// Error implements error. The text is for logs.
func (e *Error) Error() string {
	s := "upstream: " + string(e.Reason)
	if e.Status != 0 {
		s += fmt.Sprintf(" (%d)", e.Status)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason inside an error, "" if there is none.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

var (
	errStalled  = errors.New("the upstream paused for too long")
	errTrickles = errors.New("the upstream sends too slowly")
)

// unreachable is the error of a request that got no answer.
func unreachable(ctx context.Context, err error) *Error {
	reason := Down
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(context.Cause(ctx), errStalled) {
		reason = Slow
	}
	var at *url.Error
	if errors.Is(err, errRefusedAddress) {
		reason = Invalid
	}
	if errors.As(err, &at) { // the URL may hold the signature of a redirect
		err = at.Err
		if u, bad := url.Parse(at.URL); bad == nil {
			err = fmt.Errorf("%s %s: %w", strings.ToUpper(at.Op), u.Host, at.Err)
		}
	}
	return &Error{Reason: reason, Err: err}
}

func invalidAnswer(format string, args ...any) *Error {
	return &Error{Reason: Invalid, Err: fmt.Errorf(format, args...)}
}

// refused turns an answer that is a failure into an error, and closes its body. It bounds the
// time for reading the body: the context may be that of a whole blob.
func (c *Client) refused(resp *http.Response) *Error {
	defer time.AfterFunc(c.opts.Timeout, func() { _ = resp.Body.Close() }).Stop()
	e := &Error{Status: resp.StatusCode, Reason: Invalid}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		e.Reason = NotFound
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		e.Reason = Denied
	case resp.StatusCode == http.StatusTooManyRequests:
		e.Reason = Limited
	case resp.StatusCode >= http.StatusInternalServerError:
		e.Reason = Fault
	}
	e.RetryAfter = retryafter.Wait(resp.Header, time.Now(), maxRetryAfter)
	e.Err = errors.New(detail(resp))
	return e
}

// maxRetryAfter bounds the time that an upstream may ask for.
const maxRetryAfter = 6 * time.Hour

// detail is the first error of the body in one line for the log, or the status.
func detail(resp *http.Response) string {
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a part is good enough
	_, _ = io.CopyN(io.Discard, resp.Body, 1)
	if list := oci.ParseErrors(b); len(list) > 0 {
		return fmt.Sprintf("%.40q: %.200q", list[0].Code, list[0].Message)
	}
	return resp.Status
}
