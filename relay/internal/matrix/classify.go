package matrix

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.mau.fi/util/retryafter"
)

// Bounds of the wait that a homeserver asks for.
const (
	defaultWait = 5 * time.Second
	maxWait     = time.Hour
)

// standardError is the body of a refusal (client-server API, standard error response).
type standardError struct {
	Code       string          `json:"errcode"`
	Text       string          `json:"error"`
	SoftLogout bool            `json:"soft_logout"`
	RetryAfter json.RawMessage `json:"retry_after_ms"` // a number; anything else is no advice
}

// errSoftLogout reports that the session is over but its device still exists.
var errSoftLogout = errors.New("soft logout")

// byCode classifies the error codes that mean the same everywhere.
var byCode = map[string]SendError{
	"M_LIMIT_EXCEEDED":          {Class: ClassWait, Reason: "the homeserver limits the rate"},
	"M_UNKNOWN_TOKEN":           {Class: ClassRelogin, Reason: "the bot's session is over"},
	"M_MISSING_TOKEN":           {Class: ClassRelogin, Reason: "the bot's session is over"},
	"M_USER_LOCKED":             {Class: ClassLocked, Reason: "the bot's account is locked"},
	"M_USER_SUSPENDED":          {Class: ClassLocked, Reason: "the bot's account is suspended"},
	"M_USER_DEACTIVATED":        {Class: ClassLocked, Reason: "the bot's account is deactivated"},
	"M_CONSENT_NOT_GIVEN":       {Class: ClassLocked, Reason: "the bot's account has not agreed to the homeserver's terms"},
	"M_RESOURCE_LIMIT_EXCEEDED": {Class: ClassAway, Reason: "the homeserver has reached a resource limit"},
	"M_TOO_LARGE":               {Class: ClassTooLarge, Reason: "the event is too large for the homeserver"},
	"M_UNRECOGNIZED":            {Class: ClassAway, Reason: "the homeserver does not know the request: is its URL right?"},
	"M_FORBIDDEN":               {Class: ClassBlock, Reason: "the homeserver forbids it"},
	"M_ROOM_IN_USE":             {Class: ClassBlock, Reason: "the room alias is taken"},
	"M_NOT_FOUND":               {Class: ClassBlock, Reason: "the homeserver does not know the room"},
}

// refused classifies an unsuccessful answer.
func refused(status int, header http.Header, body []byte) *SendError {
	var e standardError
	if json.Unmarshal(body, &e) != nil || e.Code == "" {
		return refusedByOther(status, header)
	}
	known, ok := byCode[e.Code]
	if !ok {
		known = unknownCode(status)
	}
	failed := &known
	failed.Status, failed.Code, failed.Answer = status, line(e.Code), line(e.Text)
	if status == http.StatusTooManyRequests {
		failed.Class = ClassWait
	}
	switch failed.Class {
	case ClassWait:
		failed.RetryAfter = waitFor(header, e.RetryAfter)
	case ClassRelogin:
		if e.SoftLogout {
			failed.Err = errSoftLogout
		}
	}
	return failed
}

func unknownCode(status int) SendError {
	switch {
	case status == http.StatusTooManyRequests:
		return byCode["M_LIMIT_EXCEEDED"]
	case away(status):
		return SendError{Class: ClassAway, Reason: "the homeserver is not available"}
	case status >= 500 || status == http.StatusConflict || status == http.StatusRequestTimeout:
		return SendError{Class: ClassRetry, Reason: "the homeserver failed"}
	case status == http.StatusRequestEntityTooLarge:
		return byCode["M_TOO_LARGE"]
	case status == http.StatusForbidden || status == http.StatusNotFound:
		return SendError{Class: ClassBlock, Reason: "the homeserver refuses it"}
	}
	return SendError{Class: ClassDead, Reason: "the homeserver does not accept the event"}
}

// refusedByOther classifies an answer that isn't Matrix's, such as a reverse proxy's.
func refusedByOther(status int, header http.Header) *SendError {
	failed := &SendError{Status: status}
	switch {
	case status == http.StatusTooManyRequests:
		failed.Class, failed.Reason = ClassWait, "a proxy in front of the homeserver limits the rate"
		failed.RetryAfter = waitFor(header, nil)
	case status == http.StatusInternalServerError:
		failed.Class, failed.Reason = ClassRetry, "the homeserver failed"
	case away(status):
		failed.Class, failed.Reason = ClassAway, "the homeserver is not available"
	case status == http.StatusRequestEntityTooLarge:
		failed.Class, failed.Reason = ClassTooLarge, "the event is too large for a proxy in front of the homeserver"
	case status >= 300 && status < 400:
		failed.Class, failed.Reason = ClassAway, "the homeserver's URL redirects elsewhere: is it right?"
	default:
		failed.Class, failed.Reason = ClassAway, "the server is not a Matrix homeserver: is its URL right?"
	}
	return failed
}

func away(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// notJSON classifies a successful status with a malformed body. The request may have worked.
func notJSON(status int, body []byte, err error) *SendError {
	if trimmed := strings.TrimSpace(string(body[:min(len(body), 64)])); strings.HasPrefix(trimmed, "<") {
		return &SendError{Class: ClassAway, Status: status, Reason: "a web page answers in place of the homeserver", Err: err}
	}
	return &SendError{Class: ClassRetry, Status: status, Reason: "the homeserver's answer is broken", Err: err}
}

// failedRequest classifies a request without an answer.
func failedRequest(err error) *SendError {
	failed := &SendError{Class: ClassRetry, Reason: "the connection to the homeserver broke", Err: err}
	var op *net.OpError
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, context.Canceled):
		failed.Reason = "the request was given up"
	case errors.Is(err, errAnswerTooLong):
		failed.Reason = "the homeserver's answer is too long"
	case errors.As(err, &dns):
		failed.Class, failed.Reason = ClassAway, "the homeserver's name cannot be resolved"
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &record):
		failed.Class, failed.Reason = ClassAway, "TLS with the homeserver fails"
	case errors.As(err, &op) && op.Op == "dial", errors.As(err, &op) && op.Op == "proxyconnect":
		failed.Class, failed.Reason = ClassAway, "the homeserver cannot be reached"
	case errors.Is(err, context.DeadlineExceeded):
		failed.Reason = "the homeserver did not answer in time"
	}
	return failed
}

// waitFor returns the longer wait of header and body: an old proxy may know one of them, and a new server may round the other.
func waitFor(header http.Header, body json.RawMessage) time.Duration {
	wait := retryafter.Parse(header.Get("Retry-After"), 0)
	if ms, err := strconv.ParseFloat(string(body), 64); err == nil {
		wait = max(wait, time.Duration(min(ms, float64(maxWait/time.Millisecond))*float64(time.Millisecond)))
	}
	if wait <= 0 {
		return defaultWait
	}
	return min(wait, maxWait)
}
