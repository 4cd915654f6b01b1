package relay

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/format"
	"slipway/relay/internal/message"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const (
	maxKey    = 255
	maxExtras = 64 << 10
)

// Accept checks a message and commits it to the outbox. When it returns without error the message is durable and
// will be delivered; the homeserver is never touched here.
func (s *Service) Accept(ctx context.Context, r AcceptRequest) (Accepted, error) {
	return s.counted(s.accept(ctx, r))
}

// AcceptFor is Accept for an application that v manages, without its token: r.Token is not looked at.
func (s *Service) AcceptFor(ctx context.Context, v Viewer, id int64, r AcceptRequest) (Accepted, error) {
	app, err := s.AppFor(v, id)
	if err != nil {
		return Accepted{}, err
	}
	return s.counted(s.acceptBy(ctx, app, r, time.Now()))
}

func (s *Service) accept(ctx context.Context, r AcceptRequest) (Accepted, error) {
	now := time.Now()
	app, err := s.ByToken(r.Token, now)
	if err != nil {
		return Accepted{}, err
	}
	return s.acceptBy(ctx, app, r, now)
}

// counted counts refusals.
func (s *Service) counted(a Accepted, err error) (Accepted, error) {
	s.countRefusal(err)
	return a, err
}

func (s *Service) countRefusal(err error) {
	if err != nil {
		s.o.Metrics.refused.WithLabelValues(string(KindOf(err))).Inc()
	}
}

func (s *Service) acceptBy(ctx context.Context, app *account.App, r AcceptRequest, now time.Time) (Accepted, error) {
	row := app.Row()
	e, err := s.entry(row, r, now)
	if err != nil {
		return Accepted{}, err
	}
	if err := s.admit(app, row, now); err != nil {
		return Accepted{}, err
	}
	receipt, err := s.store.Accept(ctx, e, keyOf(r, e))
	if err != nil {
		return Accepted{}, s.notStored(ctx, err)
	}
	if receipt.Conflict || receipt.Replay {
		app.Bucket.GiveBack() // a sender that starts a long series again shall get to its end
	}
	if receipt.Conflict {
		return Accepted{}, refusal.Conflict("Idempotency-Key", "This key was used for another message.")
	}
	out := Accepted{
		ID: receipt.ID, ApplicationID: row.ID, Title: e.Title, Message: e.Body, Priority: receipt.Priority,
		AcceptedAt: store.Time(receipt.AcceptedAt), State: StateQueued, Replay: receipt.Replay,
	}
	if receipt.Replay {
		s.present(ctx, &out)
	}
	return out, nil
}

// present adds what has become of a message that was accepted earlier.
func (s *Service) present(ctx context.Context, a *Accepted) {
	rec, err := s.store.Record(ctx, a.ID)
	switch {
	case err == nil:
		m := s.show(rec)
		a.State, a.EventID = m.State, m.EventID
	case store.IsMissing(err):
		a.State = StateForgotten
	}
}

// SenderViewer is TokenViewer for who is about to send: a refusal counts as one of a
// message.
func (s *Service) SenderViewer(ctx context.Context, token string) (Viewer, error) {
	v, err := s.TokenViewer(ctx, token)
	s.countRefusal(err)
	return v, err
}

// entry checks what was sent and makes an outbox entry of it.
func (s *Service) entry(app *store.Application, r AcceptRequest, now time.Time) (*store.Entry, error) {
	title, body := message.Clean(r.Title), message.Clean(r.Message)
	switch {
	case strings.TrimSpace(body) == "":
		return nil, refusal.Invalid("message", "A message is required.")
	case len(body) > s.o.Limits.MaxMessage:
		return nil, &Error{Kind: KindTooLarge, Field: "message", Message: fmt.Sprintf("A message may have %d bytes.", s.o.Limits.MaxMessage)}
	case len(title) > s.o.Limits.MaxTitle:
		return nil, &Error{Kind: KindTooLarge, Field: "title", Message: fmt.Sprintf("A title may have %d bytes.", s.o.Limits.MaxTitle)}
	case len(r.Extras) > maxExtras:
		return nil, &Error{Kind: KindTooLarge, Field: "extras", Message: fmt.Sprintf("Extras may have %d bytes.", maxExtras)}
	case len(r.IdempotencyKey) > maxKey || !message.Printable(r.IdempotencyKey):
		return nil, refusal.Invalid("Idempotency-Key", fmt.Sprintf("A key has at most %d printable characters.", maxKey))
	}
	priority, err := effectivePriority(app, r)
	if err != nil {
		return nil, err
	}
	return &store.Entry{
		ApplicationID: app.ID, Room: app.RoomID, Txn: message.NewTxn(), AcceptedAt: now.UnixMilli(), QueuedAt: now.UnixMilli(),
		Priority: priority, Source: r.Source, Title: title, Body: body, ContentType: contentType(app, r), Extras: string(r.Extras),
	}, nil
}

// admit keeps the application within its rate and the outbox within its bounds.
func (s *Service) admit(app *account.App, row *store.Application, now time.Time) error {
	rate, burst := row.RateLimit, 0
	if rate == 0 {
		rate, burst = s.o.Limits.RatePerMinute, s.o.Limits.Burst
	}
	if wait := app.Bucket.Take(now, rate, burst); wait > 0 {
		return &Error{
			Kind: KindRateLimited, Message: fmt.Sprintf("This application may send %d messages a minute.", rate), RetryAfter: wait,
		}
	}
	if s.d.depth.Load() >= s.o.Limits.MaxWaiting {
		return &Error{Kind: KindUnavailable, Message: "Too many messages wait for delivery.", RetryAfter: time.Minute}
	}
	return nil
}

// notStored is the answer when a message could not be committed.
func (s *Service) notStored(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &Error{Kind: KindUnavailable, Message: "The message was not stored in time.", RetryAfter: refusal.RetryAfter, Err: err}
	}
	return &Error{Kind: KindUnavailable, Message: "The message could not be stored.", RetryAfter: refusal.RetryAfter, Err: err}
}

// keyOf returns the idempotency key with the hash of what it stands for; nil without a key.
func keyOf(r AcceptRequest, e *store.Entry) *store.Key {
	if r.IdempotencyKey == "" {
		return nil
	}
	priority := "default"
	if r.Priority != nil {
		priority = strconv.Itoa(*r.Priority)
	}
	h := sha256.New()
	for _, part := range []string{e.Title, e.Body, e.ContentType, e.Extras, priority} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return &store.Key{Key: r.IdempotencyKey, Hash: h.Sum(nil)}
}

// effectivePriority applies the application's scale. With ScaleAuto a priority is native where the token came in
// the body or on a native route; elsewhere it is a client of Gotify that speaks, whose 1 means low and 5 normal.
func effectivePriority(app *store.Application, r AcceptRequest) (int, error) {
	if r.Priority == nil {
		return app.DefaultPriority, nil
	}
	p := *r.Priority
	if Scale(app.PriorityScale) == ScaleGotify || Scale(app.PriorityScale) != ScaleNative && !r.NativeScale {
		return fromGotify(p), nil
	}
	if p < MinPriority || p > MaxPriority {
		return 0, refusal.Invalid("priority", fmt.Sprintf("A priority is a number from %d to %d.", MinPriority, MaxPriority))
	}
	return p, nil
}

// fromGotify translates Gotify's habit: 1–3 low, 4–7 normal, 8–9 high, from 10 on the highest.
func fromGotify(p int) int {
	switch {
	case p < 0:
		return -1
	case p == 0:
		return 0
	case p <= 3:
		return -1
	case p <= 7:
		return 0
	case p <= 9:
		return 1
	default:
		return 2
	}
}

// contentType is that of the message, or the one that its application prefers. Types that rendering does not know
// are Markdown, which is "".
func contentType(app *store.Application, r AcceptRequest) string {
	s, _, _ := strings.Cut(strings.ToLower(r.ContentType), ";")
	switch s = strings.TrimSpace(s); {
	case s == format.Plain, s == format.HTML:
		return s
	case s != "":
		return ""
	}
	switch f := account.Format(app.DefaultFormat); {
	case f == account.FormatHTML:
		return format.HTML
	case f == account.FormatPlain, f == account.FormatAuto && r.PlainProtocol:
		return format.Plain
	}
	return ""
}
