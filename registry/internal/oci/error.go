package oci

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Code is an error code of distribution-spec "Error Codes", or one of the
// Docker Registry API that clients know.
type Code string

// The codes. The HTTP status of each is the API's business.
const (
	CodeUnknown             Code = "UNKNOWN"
	CodeUnsupported         Code = "UNSUPPORTED"
	CodeUnauthorized        Code = "UNAUTHORIZED"
	CodeDenied              Code = "DENIED"
	CodeUnavailable         Code = "UNAVAILABLE"
	CodeTooManyRequests     Code = "TOOMANYREQUESTS"
	CodeDigestInvalid       Code = "DIGEST_INVALID"
	CodeSizeInvalid         Code = "SIZE_INVALID"
	CodeRangeInvalid        Code = "RANGE_INVALID"
	CodeNameInvalid         Code = "NAME_INVALID"
	CodeNameUnknown         Code = "NAME_UNKNOWN"
	CodeTagInvalid          Code = "TAG_INVALID"
	CodeManifestUnknown     Code = "MANIFEST_UNKNOWN"
	CodeManifestInvalid     Code = "MANIFEST_INVALID"
	CodeManifestBlobUnknown Code = "MANIFEST_BLOB_UNKNOWN"
	CodeBlobUnknown         Code = "BLOB_UNKNOWN"
	CodeBlobUploadUnknown   Code = "BLOB_UPLOAD_UNKNOWN"
	CodeBlobUploadInvalid   Code = "BLOB_UPLOAD_INVALID"
	CodePaginationInvalid   Code = "PAGINATION_NUMBER_INVALID"
)

var messages = map[Code]string{
	CodeUnknown:             "unknown error",
	CodeUnsupported:         "The operation is unsupported.",
	CodeUnauthorized:        "authentication required",
	CodeDenied:              "requested access to the resource is denied",
	CodeUnavailable:         "service unavailable",
	CodeTooManyRequests:     "too many requests",
	CodeDigestInvalid:       "provided digest did not match uploaded content",
	CodeSizeInvalid:         "provided length did not match content length",
	CodeRangeInvalid:        "invalid content range",
	CodeNameInvalid:         "invalid repository name",
	CodeNameUnknown:         "repository name not known to registry",
	CodeTagInvalid:          "manifest tag did not match URI",
	CodeManifestUnknown:     "manifest unknown",
	CodeManifestInvalid:     "manifest invalid",
	CodeManifestBlobUnknown: "blob unknown to registry",
	CodeBlobUnknown:         "blob unknown to registry",
	CodeBlobUploadUnknown:   "blob upload unknown to registry",
	CodeBlobUploadInvalid:   "blob upload invalid",
	CodePaginationInvalid:   "invalid number of results requested",
}

// ErrUpstream is inside the error of a pull that an upstream registry keeps from succeeding:
// a gateway's fault, not this registry's.
var ErrUpstream = errors.New("the upstream fails")

// Error is a failure that a client is told about. Detail goes into the answer
// as it is (any JSON value, nothing secret, no storage path); Err is the cause
// for the log only.
type Error struct {
	Code    Code
	Message string // "" stands for the code's usual message
	Detail  any
	Err     error
	// RetryAfter is the time until the client should ask again, 0 if it is unknown.
	RetryAfter time.Duration
}

// NewError returns an error of the code with its usual message and a detail.
func NewError(code Code, detail any) *Error { return &Error{Code: code, Detail: detail} }

// Explain returns an error of the code whose message is a sentence about what is wrong: clients print the message and
// drop the detail.
func Explain(code Code, sentence string) *Error {
	e := &Error{Code: code, Message: sentence}
	if code == CodeDenied || code == CodeUnauthorized {
		e.Detail = sentence // without a detail Docker's engine asks again for most of a minute
	}
	return e
}

// Text is the message for the client.
func (e *Error) Text() string {
	if e.Message != "" {
		return e.Message
	}
	return messages[e.Code]
}

// Error is the form for logs: code, detail and cause.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Text()
	if d, ok := e.Detail.(string); ok && d != "" && d != e.Message {
		s += ": " + d
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errors is several failures of one request, each told to the client (one
// MANIFEST_BLOB_UNKNOWN for each missing blob, for example). Never empty.
type Errors []*Error

// Error joins the texts.
func (es Errors) Error() string {
	s := ""
	for i, e := range es {
		if i > 0 {
			s += "; "
		}
		s += e.Error()
	}
	return s
}

// errorBody is the body of an answer (distribution-spec "Error Codes").
type errorBody struct {
	Errors []errorEntry `json:"errors"`
}

type errorEntry struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Detail  any    `json:"detail,omitempty"`
}

// Body returns the body of the answer. A detail that can't be JSON is left out.
func (es Errors) Body() []byte {
	body := errorBody{Errors: make([]errorEntry, len(es))}
	for i, e := range es {
		body.Errors[i] = errorEntry{e.Code, e.Text(), e.Detail}
	}
	b, err := json.Marshal(&body)
	if err != nil {
		for i := range body.Errors {
			body.Errors[i].Detail = nil
		}
		b, _ = json.Marshal(&body) //nolint:errcheck // strings never fail
	}
	return append(b, '\n')
}

// ParseErrors reads the body of an answer. It returns nil if the body holds no errors.
func ParseErrors(body []byte) Errors {
	var doc errorBody
	var es Errors
	_ = json.Unmarshal(body, &doc) // what isn't JSON holds no errors
	for _, e := range doc.Errors {
		es = append(es, &Error{Code: e.Code, Message: e.Message, Detail: e.Detail})
	}
	return es
}

// HasCode reports whether an error has one of the codes.
func HasCode(err error, codes ...Code) bool {
	var e *Error
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}

// IsUnknown reports whether an error means that a repository, a manifest or a blob isn't there.
func IsUnknown(err error) bool {
	return HasCode(err, CodeNameUnknown, CodeManifestUnknown, CodeBlobUnknown)
}
