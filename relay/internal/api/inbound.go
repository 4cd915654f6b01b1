package api

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/inbound"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/refusal"
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
		if err := a.acceptInbound(r, token, requestsOf(p.Name, batch.Messages), &result); err != nil {
			return err
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

func requestsOf(source string, messages []inbound.Message) []intake.Request {
	all := make([]intake.Request, len(messages))
	for i, m := range messages {
		all[i] = intake.Request{
			Title: m.Title, Message: m.Text, ContentType: "text/markdown", Priority: &m.Priority, NativeScale: true, IdempotencyKey: m.Key, Source: source,
		}
	}
	return all
}

// acceptInbound stores messages, all in one transaction. Where one of them is refused, each is tried by itself: what will
// never be accepted is counted, so that its sender does not repeat it forever, and what a rate limit lets pass is
// stored, so that a sender that comes back gets to the end.
func (a *API) acceptInbound(r *http.Request, token string, all []intake.Request, result *inbound.Result) error {
	if len(all) == 0 {
		return nil
	}
	accepted, err := a.service.AcceptAll(r.Context(), token, all...)
	switch kind := refusal.KindOf(err); {
	case err == nil || kind == refusal.KindConflict:
		for _, m := range accepted {
			if m.Replay || m.Conflict { // a conflict: the same event in the words of another version
				result.Repeated++
			} else {
				result.Accepted++
			}
		}
		return nil
	case len(all) > 1 && (kind == refusal.KindInvalid || kind == refusal.KindTooLarge || kind == refusal.KindRateLimited):
		for i := range all {
			if err := a.acceptInbound(r, token, all[i:i+1], result); err != nil {
				return err
			}
		}
		return nil
	case kind == refusal.KindInvalid, kind == refusal.KindTooLarge:
		result.Refused++
		a.log.Warn("an event was skipped: its message is not valid", zap.String("source", all[0].Source), zap.String("event", all[0].IdempotencyKey), zap.Error(err))
		return nil
	}
	return err
}
