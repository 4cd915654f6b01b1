package api

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/inbound"
	"slipway/relay/internal/relay"
)

// inboundRows are the routes of a protocol that is not ours.
func (a *API) inboundRows(p inbound.Protocol) (rows []*row) {
	a.o.Metrics.inbound(p.Name, inbound.Result{})
	for _, path := range p.Routes {
		rows = append(rows, &row{method: http.MethodPost, path: path, who: senders, handle: a.postInbound(p)})
	}
	return rows
}

// postInbound takes what programs post in a shape of their own. A request that could be stored in part only is
// refused, and sent again it repeats nothing: each message has a key.
func (a *API) postInbound(p inbound.Protocol) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var t tokens
		t.fromHeaders(r)
		token, err := t.one()
		if err != nil {
			return err
		}
		if _, err := a.service.SenderViewer(r.Context(), token); err != nil {
			return a.slowDown(r, err)
		}
		batch, err := a.parse(p, r)
		if err != nil {
			return err
		}
		result := inbound.Result{Ignored: batch.Ignored}
		defer func() { a.o.Metrics.inbound(p.Name, result) }()
		for i := range batch.Messages {
			if err := a.acceptInbound(r, p.Name, token, &batch.Messages[i], &result); err != nil {
				return err
			}
		}
		writeJSON(w, http.StatusOK, p.Reply(result))
		return nil
	}
}

func (a *API) parse(p inbound.Protocol, r *http.Request) (inbound.Batch, error) {
	body, err := a.readBody(r)
	if err != nil {
		return inbound.Batch{}, err
	}
	defer body.release()
	return p.Parse(inbound.Request{Header: r.Header, Body: body.bytes, Now: time.Now()})
}

// acceptInbound makes one message. What will never be accepted is counted, so that
// its sender does not come back with it for ever; everything else is an error.
func (a *API) acceptInbound(r *http.Request, source, token string, m *inbound.Message, result *inbound.Result) error {
	accepted, err := a.service.Accept(r.Context(), relay.AcceptRequest{
		Token: token, Title: m.Title, Message: m.Text, ContentType: "text/markdown", Priority: &m.Priority, NativeScale: true, IdempotencyKey: m.Key, Source: source,
	})
	switch kind := relay.KindOf(err); {
	case err == nil && accepted.Replay, kind == relay.KindConflict: // words of another version, for the same event
		result.Repeated++
	case err == nil:
		result.Accepted++
	case kind == relay.KindInvalid, kind == relay.KindTooLarge:
		result.Refused++
		a.log.Warn("an event makes no message that is allowed here", zap.String("source", source), zap.String("event", m.Key), zap.Error(err))
	default:
		return err
	}
	return nil
}
