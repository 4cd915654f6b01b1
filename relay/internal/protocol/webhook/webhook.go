// Package webhook holds the protocols of programs that post events: monitoring, forges, and whatever sends JSON.
package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"regexp"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// maxEvents bounds the events of a request.
const maxEvents = 1000

// hook returns the routes of a webhook below /hook, with the token in the path or elsewhere.
func hook(name string) []protocol.Route {
	return protocol.PostAt("/hook/"+name, "/hook/"+name+"/{token}")
}

// withMethod returns the routes with another method besides theirs.
func withMethod(routes []protocol.Route, method string) []protocol.Route {
	for _, r := range routes {
		r.Method = method
		routes = append(routes, r)
	}
	return routes
}

// answer counts a request's events by outcome.
type answer struct {
	Success  bool `json:"success"`
	Accepted int  `json:"accepted"` // messages that are stored now
	Repeated int  `json:"repeated"` // events that were accepted earlier
	Ignored  int  `json:"ignored"`  // events that make no message
	Refused  int  `json:"refused"`  // events whose message breaks a limit of the relay
}

func reply(w http.ResponseWriter, r protocol.Result) {
	request.WriteJSON(w, http.StatusOK, answer{Success: true, Accepted: r.Accepted, Repeated: r.Repeated, Ignored: r.Ignored, Refused: r.Refused})
}

// failLater answers like all other routes, except that overload is 503: Alertmanager, Grafana and programs like them
// repeat nothing after 429.
func failLater(w http.ResponseWriter, err error) {
	var refused *refusal.Error
	if errors.As(err, &refused) && refused.Kind == refusal.KindRateLimited && refused.Field != "token" {
		later := *refused
		later.Kind = refusal.KindUnavailable
		err = &later
	}
	request.WriteError(w, err)
}

// one returns the batch of a single event.
func one(d post.Draft) protocol.Parsed { return protocol.Parsed{Drafts: []post.Draft{d}} }

// ignored is the batch of an event that makes no message.
var ignored = protocol.Parsed{Ignored: 1}

// html returns a draft of a message in HTML.
func html(title, body string, priority int) post.Draft {
	return post.Draft{Content: post.Content{Title: title, Body: body, ContentType: format.HTML}, Priority: &priority}
}

var keyForm = regexp.MustCompile(`^[0-9A-Za-z._:-]{1,90}$`)

// deliveryKey returns the idempotency key of a delivery's id, or of what was sent if there is no usable id.
func deliveryKey(source, id string, body []byte) string {
	if keyForm.MatchString(id) {
		return source + ":" + id
	}
	sum := sha256.Sum256(body)
	return source + "/sha256:" + hex.EncodeToString(sum[:])
}
