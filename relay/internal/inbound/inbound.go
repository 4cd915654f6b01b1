// Package inbound reads what other programs post in shapes of their own and makes messages of it: one file per
// protocol. It knows how they speak, not what becomes of the messages.
package inbound

import (
	"net/http"
	"time"
)

// Protocol is how one kind of programs posts messages. An application's token comes in the headers or the query.
type Protocol struct {
	Name   string                       // the source of its messages, as metrics and pages show it
	Routes []string                     // paths that it posts to
	Parse  func(Request) (Batch, error) // refusals are *refusal.Error
	Reply  func(Result) any             // the JSON of the answer when all messages are stored
}

// Request is a request that is read whole.
type Request struct {
	Header http.Header
	Body   []byte // not kept by Parse
	Now    time.Time
}

// Batch is what a request asks for.
type Batch struct {
	Messages []Message
	Ignored  int // events that make no message
}

// Message is one message of a request.
type Message struct {
	Key      string // names the event: the same one sent again has the same key; printable, at most 128 bytes
	Title    string // one line
	Text     string // Markdown
	Priority int    // -2 … 2
}

// Result counts what became of a batch.
type Result struct {
	Accepted int // stored now
	Repeated int // stored earlier, under the same key
	Ignored  int // made no message
	Refused  int // break the limits of this relay: to send them again would not help
}
