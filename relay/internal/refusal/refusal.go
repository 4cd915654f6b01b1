// Package refusal holds the errors that a client may read.
package refusal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is the category of an [Error]. The set is closed; each kind has one HTTP status.
type Kind string

// The kinds of refusal.
const (
	KindInvalid      Kind = "invalid"                // the request is wrong; Field names the culprit when there is one
	KindUnauthorized Kind = "unauthorized"           // no such token, name or password
	KindForbidden    Kind = "forbidden"              // authenticated, but not allowed
	KindNotFound     Kind = "not_found"              // missing, or another user's
	KindConflict     Kind = "conflict"               // taken, or not possible in the present state
	KindTooLarge     Kind = "too_large"              // over a size limit
	KindMediaType    Kind = "unsupported_media_type" // the route doesn't take the body's type
	KindMethod       Kind = "method_not_allowed"     // the path doesn't support the method
	KindTimeout      Kind = "timeout"                // the body didn't arrive in time
	KindRateLimited  Kind = "rate_limited"           // too fast; RetryAfter is how long to wait
	KindUnavailable  Kind = "unavailable"            // the database or homeserver doesn't answer; RetryAfter is how long to wait
	KindInternal     Kind = "internal"               // a fault of the relay
)

// Error is a refusal that a client may read: Message is a sentence without secrets. Err, the cause, is for the log
// only.
type Error struct {
	Kind       Kind
	Field      string // the field that is wrong, as the API names it; "" if none
	Message    string
	RetryAfter time.Duration // for KindRateLimited and KindUnavailable
	Err        error
}

// Error returns the sentence and its cause.
func (e *Error) Error() string {
	s := e.Message
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Err == nil {
		return s
	}
	cause := e.Err.Error()
	if strings.HasPrefix(cause, strings.TrimSuffix(e.Message, ".")) {
		return strings.TrimSuffix(s, e.Message) + cause // the cause repeats the sentence
	}
	return strings.TrimSuffix(s, ".") + ": " + cause
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of err; anything that holds no [Error] is [KindInternal], and nil is "".
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}

// Invalid returns the refusal of a request with a wrong field.
func Invalid(field, message string) *Error {
	return &Error{Kind: KindInvalid, Field: field, Message: message}
}

// TooLarge returns the refusal of a field over a limit in bytes, which it appends to the sentence, such as "A message may have
// at most".
func TooLarge(field, sentence string, limit int64) *Error {
	size := fmt.Sprintf("%d bytes", limit)
	switch {
	case limit >= 1<<20 && limit%(1<<20) == 0:
		size = fmt.Sprintf("%d MiB (%s)", limit>>20, size)
	case limit >= 1<<10 && limit%(1<<10) == 0:
		size = fmt.Sprintf("%d KiB (%s)", limit>>10, size)
	}
	return &Error{Kind: KindTooLarge, Field: field, Message: sentence + " " + size + "."}
}

// Forbidden returns the refusal of an action that the principal has no right to.
func Forbidden(message string) *Error { return &Error{Kind: KindForbidden, Message: message} }

// NotFound returns the refusal of an object that doesn't exist or isn't the principal's.
func NotFound(noun string) *Error {
	return &Error{Kind: KindNotFound, Message: "There is no such " + noun + "."}
}

// Conflict returns the refusal of a name that is taken, or of a change that the present state forbids.
func Conflict(field, message string) *Error {
	return &Error{Kind: KindConflict, Field: field, Message: message}
}

// RetryAfter is the default time to wait before the next attempt.
const RetryAfter = 5 * time.Second

// Unreadable returns the refusal for a failed read of the database.
func Unreadable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Kind: KindUnavailable, Message: "The database did not answer in time: try again later.", RetryAfter: RetryAfter, Err: err}
	}
	return &Error{Kind: KindUnavailable, Message: "The database cannot be read: try again later. The relay's log has the cause.", RetryAfter: RetryAfter, Err: err}
}

// Unwritable returns the refusal for a failed write to the database, or err itself if it is a refusal.
func Unwritable(err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Kind: KindUnavailable, Message: "The change could not be stored: try again later. The relay's log has the cause.", RetryAfter: RetryAfter, Err: err}
}
