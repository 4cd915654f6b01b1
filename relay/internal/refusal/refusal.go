// Package refusal holds the errors that may be shown to whoever asked.
package refusal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says what sort of refusal an [Error] is. The set is closed; the API maps each kind to one HTTP status.
type Kind string

// The kinds of refusal.
const (
	KindInvalid      Kind = "invalid"                // the request is wrong; Field names the culprit when there is one
	KindUnauthorized Kind = "unauthorized"           // no such token, name or password
	KindForbidden    Kind = "forbidden"              // known, but not allowed
	KindNotFound     Kind = "not_found"              // not there, or not yours
	KindConflict     Kind = "conflict"               // taken, or not possible in the present state
	KindTooLarge     Kind = "too_large"              // over a size limit
	KindMediaType    Kind = "unsupported_media_type" // a body of a kind that is not read here
	KindRateLimited  Kind = "rate_limited"           // too fast; RetryAfter says how long to wait
	KindUnavailable  Kind = "unavailable"            // cannot be stored or reached now; RetryAfter says when to come back
	KindInternal     Kind = "internal"               // a fault of ours
)

// Error is a refusal that may be shown to whoever asked: Message is a sentence without secrets. Err, the cause,
// is for the log only.
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
		return strings.TrimSuffix(s, e.Message) + cause // the cause says the same and more
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

// Invalid is the refusal of a request that is wrong in a field.
func Invalid(field, message string) *Error {
	return &Error{Kind: KindInvalid, Field: field, Message: message}
}

// TooLarge is the refusal of what has more bytes than a limit, with which the sentence
// ends: "A message may have at most".
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

// Forbidden is the refusal of what the principal may not do.
func Forbidden(message string) *Error { return &Error{Kind: KindForbidden, Message: message} }

// NotFound is the refusal of what is not there, or not the principal's.
func NotFound(noun string) *Error {
	return &Error{Kind: KindNotFound, Message: "There is no such " + noun + "."}
}

// Conflict is the refusal of what is taken, or not possible in the present state.
func Conflict(field, message string) *Error {
	return &Error{Kind: KindConflict, Field: field, Message: message}
}

// RetryAfter is when to come back after a refusal that names no other time.
const RetryAfter = 5 * time.Second

// Unreadable is the answer when the database cannot be read.
func Unreadable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Kind: KindUnavailable, Message: "The database did not answer in time.", RetryAfter: RetryAfter, Err: err}
	}
	return &Error{Kind: KindUnavailable, Message: "The database cannot be read.", RetryAfter: RetryAfter, Err: err}
}

// Unwritable is the answer when the database cannot be written; refusals of ours pass through.
func Unwritable(err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Kind: KindUnavailable, Message: "The change could not be stored.", RetryAfter: RetryAfter, Err: err}
}
