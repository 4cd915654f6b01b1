package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"slipway/registry/internal/oci"
)

// Reason says in what way an upstream fails. It is a closed set, fit for the label
// of a metric.
type Reason string

// The reasons.
const (
	Down     Reason = "down"     // no connection, or one that broke
	Slow     Reason = "slow"     // no answer in time, or one that paused too long
	Fault    Reason = "fault"    // 5xx
	Limited  Reason = "limited"  // 429
	Login    Reason = "login"    // 401
	Denied   Reason = "denied"   // 403
	NotFound Reason = "notfound" // 404, which is an answer as good as any
	Invalid  Reason = "invalid"  // an answer that makes no sense, or bytes of another digest
)

// Reasons are all of them that are failures.
func Reasons() []Reason { return []Reason{Down, Slow, Fault, Limited, Login, Denied, Invalid} }

// Error is a request that the upstream did not answer as it should.
type Error struct {
	Reason     Reason
	Status     int           // 0 without an answer
	RetryAfter time.Duration // 0 unless the upstream said so
	Err        error         // for the log
}

// Error is the form for logs.
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

// ReasonOf is the reason inside an error; "" if there is none.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

var (
	errStalled  = errors.New("the upstream paused for too long")
	errTrickles = errors.New("the upstream sends too slowly")
)

// unreachable is the error of a request without an answer.
func unreachable(ctx context.Context, err error) *Error {
	reason := Down
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(context.Cause(ctx), errStalled) {
		reason = Slow
	}
	var at *url.Error
	if errors.As(err, &at) { // its URL may hold the signature of a redirect
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

// refused reads the answer of a request that failed, and closes it. One that does not end
// is cut off: the context may be that of a whole blob.
func (c *Client) refused(resp *http.Response) *Error {
	defer time.AfterFunc(c.opts.Timeout, func() { _ = resp.Body.Close() }).Stop()
	e := &Error{Status: resp.StatusCode, Reason: Invalid}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		e.Reason = NotFound
	case resp.StatusCode == http.StatusUnauthorized:
		e.Reason = Login
	case resp.StatusCode == http.StatusForbidden:
		e.Reason = Denied
	case resp.StatusCode == http.StatusTooManyRequests:
		e.Reason = Limited
	case resp.StatusCode >= http.StatusInternalServerError:
		e.Reason = Fault
	}
	e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	e.Err = errors.New(detail(resp))
	return e
}

// maxRetryAfter bounds what an upstream may ask for.
const maxRetryAfter = 6 * time.Hour

// retryAfter reads seconds or a date; 0 if it is neither.
func retryAfter(s string, now time.Time) time.Duration {
	var wait time.Duration
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 {
		wait = time.Duration(min(n, int64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(s); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// detail is what the body says, in a line for the log.
func detail(resp *http.Response) string {
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what arrived is enough
	_, _ = io.CopyN(io.Discard, resp.Body, 1)
	var body struct {
		Errors []struct {
			Code    oci.Code `json:"code"`
			Message string   `json:"message"`
		} `json:"errors"`
	}
	if json.Unmarshal(b, &body) == nil && len(body.Errors) > 0 {
		return fmt.Sprintf("%.40q: %.200q", body.Errors[0].Code, body.Errors[0].Message)
	}
	return resp.Status
}
