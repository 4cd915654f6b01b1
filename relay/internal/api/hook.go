package api

import (
	"errors"
	"mime"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"slipway/relay/internal/hook"
	"slipway/relay/internal/relay"
)

// hookAnswer counts what became of an envelope's events.
type hookAnswer struct {
	Success  bool `json:"success"`
	Accepted int  `json:"accepted"` // messages that are stored now
	Repeated int  `json:"repeated"` // events that were accepted earlier
	Ignored  int  `json:"ignored"`  // events that make no message
	Refused  int  `json:"refused"`  // events whose message breaks the limits of this relay: to send them again would not help
}

// postRegistryHook takes a registry's notifications. Each event is a message of its
// own, with the event's id as its key: an envelope that could be stored in part
// only is refused, and sent again it repeats nothing.
func (a *API) postRegistryHook(w http.ResponseWriter, r *http.Request) error {
	var t tokens
	t.fromHeaders(r)
	token, err := t.one()
	if err != nil {
		return err
	}
	if _, err := a.service.SenderViewer(r.Context(), token); err != nil {
		return a.slowDown(r, err)
	}
	notices, ignored, err := a.readEnvelope(r)
	if err != nil {
		return err
	}
	answer := hookAnswer{Success: true, Ignored: ignored}
	defer func() { a.o.Metrics.hooked(&answer) }()
	for i := range notices {
		if err := a.acceptNotice(r, token, &notices[i], &answer); err != nil {
			return err
		}
	}
	writeJSON(w, http.StatusOK, &answer)
	return nil
}

// readEnvelope reads the events of a registry.
func (a *API) readEnvelope(r *http.Request) (notices []hook.Notice, ignored int, err error) {
	if !isEnvelope(r.Header.Get("Content-Type")) {
		return nil, 0, errEnvelope
	}
	body, err := a.readBody(r)
	if err != nil {
		return nil, 0, err
	}
	defer body.release()
	if err := a.checkSignature(r, body.bytes); err != nil {
		return nil, 0, err
	}
	notices, ignored, err = hook.Registry(body.bytes)
	switch {
	case errors.Is(err, hook.ErrTooMany):
		return nil, 0, &relay.Error{Kind: relay.KindTooLarge, Message: "An envelope may have 1000 events."}
	case err != nil:
		return nil, 0, &relay.Error{Kind: relay.KindInvalid, Message: "The body is not an envelope of a registry's events: " + err.Error() + "."}
	}
	return notices, ignored, nil
}

// checkSignature refuses a body that the registry did not sign, where a secret says
// that it does.
func (a *API) checkSignature(r *http.Request, body []byte) error {
	if len(a.o.RegistrySecret) == 0 {
		return nil
	}
	signature := r.Header.Get(hook.SignatureHeader)
	switch {
	case signature == "":
		return &relay.Error{Kind: relay.KindUnauthorized, Message: "The body is to be signed in the header " + hook.SignatureHeader + ": give the registry's endpoint the secret of this relay's hook.registry.secret."}
	case !hook.Signed(signature, a.o.RegistrySecret, body):
		return &relay.Error{Kind: relay.KindUnauthorized, Message: "The signature in the header " + hook.SignatureHeader + " is not that of this body: the secret of the registry's endpoint and this relay's hook.registry.secret differ, or the body was changed on its way."}
	}
	return nil
}

// errEnvelope is the answer to a body that does not say it is an envelope.
var errEnvelope = &statusError{
	http.StatusUnsupportedMediaType, "unsupported_media_type",
	"The body is to be application/vnd.docker.distribution.events.v1+json, .v2+json or application/json.",
}

func isEnvelope(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	if contentType == "" {
		return true
	}
	return err == nil && (kind == "application/json" || strings.HasPrefix(kind, "application/vnd.docker.distribution.events.v") && strings.HasSuffix(kind, "+json"))
}

// acceptNotice makes one message. What will never be accepted is counted, so that
// a registry does not come back with it for ever; everything else is an error.
func (a *API) acceptNotice(r *http.Request, token string, n *hook.Notice, answer *hookAnswer) error {
	accepted, err := a.service.Accept(r.Context(), relay.AcceptRequest{
		Token: token, Title: n.Title, Message: n.Message, ContentType: "text/markdown", Priority: &n.Priority, NativeScale: true, IdempotencyKey: n.Key, Source: "registry",
	})
	switch kind := relay.KindOf(err); {
	case err == nil && accepted.Replay, kind == relay.KindConflict: // words of another version, for the same event
		answer.Repeated++
	case err == nil:
		answer.Accepted++
	case kind == relay.KindInvalid, kind == relay.KindTooLarge:
		answer.Refused++
		a.log.Warn("a registry's event makes no message that is allowed here", zap.String("event", n.Key), zap.Error(err))
	default:
		return err
	}
	return nil
}
