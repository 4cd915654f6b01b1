package service

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/store"
)

// Filter selects messages. Before is the Next of the page before; Limit is at most MaxPage, and 0 means 50.
type Filter = store.Filter

// MaxPage is the largest page of a list.
const MaxPage = 200

// Page is a page of messages, newest first.
type Page struct {
	Messages []post.View
	Next     int64 // Before of the next page, 0 at the end
}

// hideTokens removes the tokens of the application from everything that people see: senders put theirs into titles and URLs.
func hideTokens(app *account.App, d *post.Draft) {
	for _, text := range []*string{&d.Title, &d.Body, &d.Note, &d.Thread, &d.Key, &d.Topic} {
		*text = app.HideTokens(*text, d.Token)
	}
	d.Extras = app.HideTokens(string(request.Unescape([]byte(d.Extras))), d.Token)
	for i := range d.Files {
		d.Files[i].Name = app.HideTokens(d.Files[i].Name, d.Token)
	}
}

// hideJoined converts a body to plain text if rendering its markup would join the parts of the request's token.
func hideJoined(c *post.Content, token string) {
	if !post.MayJoin(c.Body, token) {
		return
	}
	_, text := format.Body(c.ContentType, c.Body)
	if hidden := post.HideToken(text, token); hidden != text {
		c.Body, c.ContentType = hidden, format.Plain
	}
}

// Shorten cuts the title and the text of a message to the limits: a service that posts events can't make them shorter.
func (s *Intake) Shorten(d *post.Draft) {
	d.Title, d.Body = s.ShortTitle(d.Title), shortened(d.Body, s.limits().MaxMessage)
}

// ShortTitle returns a title cut to the limit.
func (s *Intake) ShortTitle(title string) string { return shortened(title, s.limits().MaxTitle) }

func shortened(text string, limit int) string {
	if text = post.Clean(text); len(text) <= limit {
		return text
	}
	return format.Cut(text, max(0, limit-len("…")))
}

const (
	maxKey    = 255
	maxExtras = 64 << 10
)

// entry validates a request and converts it to an outbox entry.
func (s *Intake) entry(app *store.Application, r post.Draft, now time.Time) (e post.Entry, err error) {
	title, body := post.Clean(r.Title), post.Clean(r.Body)
	limits := s.limits()
	switch {
	case strings.TrimSpace(body) == "":
		return e, refusal.Invalid("message", "A message is required.")
	case len(body) > limits.MaxMessage:
		return e, refusal.TooLarge("message", "A message may have at most", int64(limits.MaxMessage))
	case len(title) > limits.MaxTitle:
		return e, refusal.TooLarge("title", "A title may have at most", int64(limits.MaxTitle))
	case len(r.Extras) > maxExtras:
		return e, refusal.TooLarge("extras", "Extras may have at most", maxExtras)
	case len(r.IdempotencyKey) > maxKey || !post.Printable(r.IdempotencyKey):
		return e, refusal.Invalid("Idempotency-Key", fmt.Sprintf("A key has at most %d printable ASCII characters.", maxKey))
	case r.Retry != 0 && r.Retry < post.MinRetry:
		return e, refusal.Invalid("retry", "retry must be at least 30 seconds.")
	case r.Expire < 0 || r.Expire > post.MaxExpire:
		return e, refusal.Invalid("expire", "expire must be at most 3 hours (10800 seconds).")
	case r.Change == post.Resolve && !r.Later.IsZero():
		return e, refusal.Invalid("delay", "The end of an alert can't be delayed.")
	case r.Change != post.Create && r.Key == "":
		return e, refusal.Invalid("key", "A key is required: it names what the report is about.")
	}
	for field, name := range map[string]string{"thread": r.Thread, "key": r.Key} {
		if len(name) > maxKey || post.Clean(name) != name {
			return e, refusal.Invalid(field, fmt.Sprintf("A %s has at most %d bytes of text.", field, maxKey))
		}
	}
	priority, err := priorityOf(app, r)
	if err != nil {
		return e, err
	}
	attachments, err := s.attached(r.Files)
	if err != nil {
		return e, err
	}
	at, kind := now.UnixMilli(), post.KindMessage
	if r.Edits != 0 {
		kind = post.KindEdit
	}
	queued, due := at, int64(0)
	if r.Later.After(now) {
		queued, due = r.Later.UnixMilli(), r.Later.UnixMilli()
	}
	content := r.Content
	content.Title, content.Body, content.Priority = title, body, priority
	content.ContentType, content.Extras, content.Attachments = post.FormatMarkdown.MediaType(r.ContentType, ""), post.Clean(r.Extras), attachments
	return post.Entry{
		Kind: kind, Target: r.Edits,
		Origin:  post.Origin{Room: app.RoomID, ApplicationID: app.ID, AcceptedAt: at, Source: r.Source, Thread: r.Thread, Key: r.Key, Resolves: r.Change == post.Resolve, EventAt: post.Millis(r.EventAt)},
		Content: content,
		Txn:     post.NewTxn(), QueuedAt: queued, NextAt: due, State: post.StateQueued,
	}, nil
}

// priorityOf returns the priority of a message: its own, or the application's default.
func priorityOf(app *store.Application, r post.Draft) (int, error) {
	if r.Priority == nil {
		return app.DefaultPriority, nil
	}
	if p := *r.Priority; p >= post.MinPriority && p <= post.MaxPriority {
		return p, nil
	}
	return 0, refusal.Invalid("priority", fmt.Sprintf("The priority must be min, low, normal, high or max, or a number from %d to %d.", post.MinPriority, post.MaxPriority))
}

// isQuiet reports whether a message mentions nobody because of the hour at which it is sent.
func isQuiet(app *store.Application, e *post.Entry) bool {
	if app.QuietHours == "" || e.Priority != 1 {
		return false
	}
	hours, err := post.ParseQuietHours(app.QuietHours, app.TimeZone)
	return err == nil && hours.Contain(time.UnixMilli(e.QueuedAt))
}

// keyOf returns the idempotency key with the hash of what it stands for; nil without a key.
func keyOf(r post.Draft, e *post.Entry) *store.Key {
	if r.IdempotencyKey == "" {
		return nil
	}
	content := e.Content
	content.Priority = 0 // the application's default may change
	return &store.Key{Key: r.IdempotencyKey, Hash: digest(content, r.Files, r.Priority, r.Change, e.Thread, e.Key, r.Edits)}
}

// digest hashes a content, its attachments and more. Attachments count by name and content, not by upload. Hashes are
// stored: if a change alters them, repeated requests get 409 after an upgrade and every open alert counts as changed.
func digest(content post.Content, attachments []post.Attachment, more ...any) []byte {
	content.Attachments = ""
	parts := append([]any{content}, more...)
	for _, a := range attachments {
		parts = append(parts, a.Name, a.Sum)
	}
	text, _ := json.Marshal(parts) // strings and numbers always encode
	hash := sha256.Sum256(text)
	return hash[:]
}
