// Package protocol converts requests of senders to messages. Each protocol has a file of its own, with its
// credential, its shapes and its errors; all share the path of a message from there on.
package protocol

import (
	"net/http"
	"time"

	"slipway/relay/internal/post"
)

// Protocol is one way of posting messages over HTTP; mail comes in by package smtp. All functions are safe for concurrent use.
// Errors that a sender may read are *refusal.Error.
type Protocol struct {
	Name   string // the source of its messages, in metrics, logs and pages
	Routes []Route
	// Token returns the application's token, "" if there is none. It is called before the body is read and, if there
	// was none and BodyToken is set, once more with the body.
	Token     func(*Request) (string, error)
	BodyToken bool
	// Application returns the ID of the application that a user or a client of Gotify sends for, 0 if the request names none. It is called before
	// the body is read and once more after it. nil means that only applications send.
	Application func(*Request) int64
	// Files means that the files of a multipart form become the request's Files.
	Files bool
	// Raw reports whether the body, which begins with start, is a file by itself, and its name. nil means never.
	Raw func(r *Request, start []byte) (name string, ok bool)
	// Parse makes drafts of a request whose token is valid. It must not keep the request's body.
	Parse func(*Request, App) (Parsed, error)
	// Events means that a request holds events with keys of their own: one that breaks a limit, or whose key
	// was used for another text, is counted and doesn't fail the request. Messages of other protocols have the request's Idempotency-Key.
	Events bool
	Reply  func(http.ResponseWriter, Result)
	Fail   func(http.ResponseWriter, error)
}

// Route is where a protocol's requests arrive. Of several routes with the same method and path the first that
// matches takes the request. A path that begins with a variable doesn't match the fixed paths of other routes.
type Route struct {
	Method, Path string                   // as mux writes it; a token's segment must be {token}, because fixed ones are logged
	Match        func(*http.Request) bool // nil matches every request
}

// Request is a request with its body read whole.
type Request struct {
	*http.Request
	Path  map[string]string // variables of the route's path
	Body  []byte            // nil until it is read
	Token string            // the result of Token, "" before
	Now   time.Time
	Files []File // taken out of a form, and what Token and Parse add, in their order

	fields *submission // of the native protocol, once read
}

// File is a file of a request: stored, or with its content.
type File = post.Attachment

// App is what a protocol may know of the application.
type App struct {
	ID     int64
	Name   string
	Format post.Format // for messages that name none
	Scale  post.Scale  // of priorities
	// CriticalRetry is the interval of reminders of critical alerts, 0 for none.
	CriticalRetry time.Duration
	// Secret returns the secret that verifies signatures, nil if the application has none. It may be nil, too.
	Secret func() ([]byte, error)
}

// Parsed is what a request asks for.
type Parsed struct {
	Drafts   []post.Draft
	Withdraw int64         // the message of the application to withdraw; 0 for none
	Beat     bool          // a heartbeat of the application
	Ignored  int           // events that make no message
	Wait     time.Duration // how long the sender waits for the delivery of a single draft; 0 for not at all
	Answer   any           // for the protocol's Reply
	Receipt  *Receipt      // the alert that the request asks for in place of drafts
	Sequence *Sequence     // the message that the request is done with
}

// Sequence names a message by the key of its reports, or by its number.
type Sequence struct {
	Key      string
	Message  int64 // 0 if the key is no number
	Withdraw bool  // or its alert is acknowledged
}

// Receipt asks whether a message was acknowledged.
type Receipt struct {
	Message int64
	Stop    bool // ends its reminders
}

// Result is the outcome of a request.
type Result struct {
	Parsed
	Messages []post.Accepted // of the drafts that were stored, now or earlier
	Accepted int             // stored now
	Repeated int             // stored earlier, under the same key
	Alert    post.Alert      // for a receipt
	Refused  int             // over a limit of the relay: sending them again would not help
}
