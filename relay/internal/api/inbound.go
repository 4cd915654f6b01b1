package api

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gorilla/mux"
	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// inboundRows returns the routes of a protocol.
func (a *API) inboundRows(p protocol.Protocol) (rows []*row) {
	if p.Events {
		a.o.Metrics.inbound(p.Name, protocol.Result{})
	}
	for _, route := range p.Routes {
		rows = append(rows, &row{method: route.Method, path: route.Path, match: route.Match, who: senders, handle: a.postInbound(p), fail: p.Fail})
	}
	return rows
}

// postInbound takes messages in the shape of a protocol.
func (a *API) postInbound(p protocol.Protocol) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		in := &protocol.Request{Request: r, Path: mux.Vars(r), Now: time.Now()}
		app, release, err := a.receive(p, in)
		if err != nil {
			return err
		}
		defer release()
		result, err := a.carryOut(p, in, app)
		if p.Events {
			a.o.Metrics.inbound(p.Name, result)
		}
		if err != nil {
			a.detach(in)
			a.logRefusal(p, app, err)
			return err
		}
		if len(result.Messages) > 0 && result.Messages[0].Replay {
			a.detach(in)
		}
		p.Reply(w, result)
		return nil
	}
}

// receive authenticates a sender and reads the body. The token is checked before the body is read, unless it is in
// the body: such bodies share the memory of strangers.
func (a *API) receive(p protocol.Protocol, in *protocol.Request) (app *account.App, release func(), err error) {
	if in.Request, err = decoded(in.Request); err != nil {
		return nil, nil, err
	}
	if in.Token, err = p.Token(in); err != nil {
		return nil, nil, err
	}
	known := in.Token != "" || !p.BodyToken
	if known {
		if app, err = a.sender(p, in); err != nil {
			return nil, nil, a.wrongToken(in.Request, err)
		}
	}
	b, err := openBody(in.Request, a.longestBody())
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			b.release()
		}
	}()
	if r := a.receiverOf(p, in, b, app); r != nil {
		app, err = r.receive()
		return app, b.release, err
	}
	if err = b.readAll(a.shareOf(in.Request, app), a.maxBody.Load()); err != nil {
		return nil, nil, err
	}
	in.Body = bytes.TrimPrefix(b.Bytes(), []byte(request.Mark))
	if app == nil {
		if in.Body == nil {
			in.Body = []byte{}
		}
		if !known {
			in.Token, err = p.Token(in)
		}
		if in.Token == "" && err == nil && p.Application != nil {
			in.Token, _, err = a.clientToken(in.Request)
		}
		if err == nil {
			app, err = a.sender(p, in)
		}
		if err != nil {
			return nil, nil, a.wrongToken(in.Request, err)
		}
	}
	return app, b.release, nil
}

// sender returns the application of a request: the token's, or the one that a user or a client of Gotify names. It is nil if only the
// body can name one and hasn't been read.
func (a *API) sender(p protocol.Protocol, in *protocol.Request) (*account.App, error) {
	if p.Application == nil || !a.mayNameApplication(in) {
		return a.service.Sender(in.Context(), in.Token)
	}
	id := p.Application(in)
	if id == 0 {
		if in.Body == nil {
			return nil, nil //nolint:nilnil // not known yet
		}
		return a.service.Sender(in.Context(), in.Token) // which refuses it
	}
	v, err := a.owner(in)
	if err != nil {
		return nil, err
	}
	return a.service.AppFor(in.Context(), v, id)
}

// mayNameApplication reports whether a request has a client's token, or a user's name and password in place of a token.
func (a *API) mayNameApplication(in *protocol.Request) bool {
	if account.IsClientToken(in.Token) {
		return true
	}
	if name, _, ok := in.BasicAuth(); !ok || name == "" {
		return false
	}
	_, err := a.service.TokenViewer(in.Context(), in.Token)
	return refusal.KindOf(err) == refusal.KindUnauthorized
}

// owner returns the user who sends for one of their own applications. It removes a password from the request's token.
func (a *API) owner(in *protocol.Request) (account.Principal, error) {
	name, password, _ := in.BasicAuth()
	if account.IsClientToken(in.Token) {
		if v, err := a.service.ClientViewer(in.Context(), in.Token); name == "" || !mayBePassword(in.Request, err) {
			return v, err
		}
	}
	if err := a.o.Origins.Own(in.Request); err != nil {
		return account.Principal{}, err
	}
	v, err := a.service.Authenticate(in.Context(), name, password, request.Address(in.Request, a.o.TrustedProxies))
	v.Admin, in.Token = false, "" // it was a password: nothing of a message is taken for a token then
	return v, err
}

// carryOut parses a request and does what it asks for: mostly to store messages.
func (a *API) carryOut(p protocol.Protocol, in *protocol.Request, app *account.App) (protocol.Result, error) {
	parsed, err := p.Parse(in, protocol.App{
		ID: app.ID, Name: app.Name, Format: app.DefaultFormat, Scale: app.PriorityScale, CriticalRetry: time.Duration(app.CriticalRetry),
		Secret: func() ([]byte, error) { return a.service.Secret(app) },
	})
	result := protocol.Result{Parsed: parsed}
	if err != nil {
		return result, err
	}
	a.applyTemplates(in, app, parsed.Drafts)
	if len(parsed.Drafts) > 0 {
		if err := a.attach(in, app); err != nil {
			return result, err
		}
	}
	for i := range parsed.Drafts {
		d := &parsed.Drafts[i]
		if len(d.Files) > 0 {
			d.Files = in.Files // which are stored now
		}
		d.Token, d.Source = in.Token, cmp.Or(d.Source, p.Name)
		if p.Events {
			a.service.Shorten(d)
		} else {
			d.IdempotencyKey = in.Header.Get("Idempotency-Key")
		}
	}
	if parsed.Withdraw != 0 {
		_, err := a.service.Cancel(in.Context(), account.Principal{ApplicationID: app.ID}, parsed.Withdraw)
		return result, err
	}
	if parsed.Receipt != nil {
		result.Alert, err = a.receipt(in, account.Principal{ApplicationID: app.ID}, parsed.Receipt)
		return result, err
	}
	if parsed.Sequence != nil {
		return result, a.endSequence(in.Context(), account.Principal{Name: app.Name, ApplicationID: app.ID}, parsed.Sequence)
	}
	if parsed.Beat {
		return result, a.service.Beat(in.Context(), app)
	}
	if len(parsed.Drafts) == 0 {
		return result, nil
	}
	store := a.storeSingle
	if p.Events {
		store = a.storeEvents
	}
	return result, store(in.Context(), app, parsed.Drafts, &result)
}

// receipt returns the alert that a sender asks for, whose reminders end if it asks for that.
func (a *API) receipt(in *protocol.Request, v account.Principal, r *protocol.Receipt) (post.Alert, error) {
	if r.Stop {
		if err := a.service.StopReminding(in.Context(), v, r.Message); err != nil {
			return post.Alert{}, err
		}
	}
	found, err := a.service.Alert(in.Context(), v, r.Message)
	if err == nil && (found == nil || found.Retry == 0) {
		err = refusal.NotFound("receipt")
	}
	if err != nil {
		return post.Alert{}, err
	}
	return *found, nil
}

// endSequence withdraws the message that a sequence names, or acknowledges its alert. Subscribers learn of it even if there is no message.
func (a *API) endSequence(ctx context.Context, v account.Principal, s *protocol.Sequence) error {
	id, err := a.service.Named(ctx, v, s.Key, s.Message)
	if err != nil {
		return err
	}
	change := ntfyChange{application: v.ApplicationID, kind: protocol.NtfyClear, sequence: s.Key}
	var m post.View
	switch {
	case s.Withdraw:
		change.kind = protocol.NtfyDelete
		if id != 0 {
			m, err = a.service.Cancel(ctx, v, id)
		}
	case id != 0:
		if m, err = a.service.Acknowledge(ctx, v, id); refusal.KindOf(err) == refusal.KindConflict { // it has no open alert
			m, err = a.service.Message(ctx, v, id)
		}
	}
	if err != nil {
		return err
	}
	if m.ID != 0 {
		change.sequence = protocol.NtfySequenceOf(m)
	}
	if change.after, err = a.service.Horizon(ctx); err != nil {
		return err
	}
	a.changes.publish(change)
	return nil
}

// storeSingle stores the only draft of a request and waits for its delivery if the sender asks for that.
func (a *API) storeSingle(ctx context.Context, app *account.App, drafts []post.Draft, result *protocol.Result) error {
	accepted, err := a.service.AcceptAll(ctx, app, drafts...)
	if err != nil {
		return err
	}
	m := accepted[0]
	if wait := min(result.Wait, time.Duration(a.maxWait.Load())); wait > 0 {
		now, err := a.service.Wait(ctx, account.Principal{ApplicationID: m.ApplicationID}, m.ID, wait)
		if err == nil {
			m.State, m.EventID, m.Error = now.State, now.EventID, now.Error
		}
	}
	result.Messages = append(result.Messages, m)
	return nil
}

// storeEvents stores the drafts of a request in one transaction. If one of them is refused, each is tried by itself: a
// draft that will never be accepted is counted, so that its sender doesn't repeat it forever, and drafts within a rate
// limit are stored, so that a sender that comes back gets to the end.
func (a *API) storeEvents(ctx context.Context, app *account.App, drafts []post.Draft, result *protocol.Result) error {
	accepted, err := a.service.AcceptAll(ctx, app, drafts...)
	switch kind := refusal.KindOf(err); {
	case err == nil || kind == refusal.KindConflict:
		for _, m := range accepted {
			result.Messages = append(result.Messages, m)
			if m.Replay || m.Conflict { // a conflict: another version of the relay worded the same event differently
				result.Repeated++
			} else {
				result.Accepted++
			}
		}
		return nil
	case len(drafts) > 1 && (kind == refusal.KindInvalid || kind == refusal.KindTooLarge || kind == refusal.KindRateLimited):
		for i := range drafts {
			if err := a.storeEvents(ctx, app, drafts[i:i+1], result); err != nil {
				return err
			}
		}
		return nil
	case kind == refusal.KindInvalid, kind == refusal.KindTooLarge:
		result.Refused++
		a.log.Warn("event skipped: its message is not valid", zap.String("source", drafts[0].Source), zap.String("event", drafts[0].IdempotencyKey), zap.Error(err))
		return nil
	}
	return err
}

// logRefusal logs an invalid request that has a valid token: its sender may ignore the answer.
func (a *API) logRefusal(p protocol.Protocol, app *account.App, err error) {
	switch refusal.KindOf(err) {
	case refusal.KindInvalid, refusal.KindMediaType, refusal.KindTooLarge, refusal.KindUnauthorized, refusal.KindForbidden:
		a.log.Info("message refused", zap.String("source", p.Name), zap.String("application", app.Name), zap.Error(err))
	}
}
