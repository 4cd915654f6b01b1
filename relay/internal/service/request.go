package service

import (
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

// Request is a message as it came in.
type Request struct {
	Token          string
	Title          string
	Message        string
	ContentType    string // text/plain or text/html; "" means Markdown
	Priority       *int   // −2 … 2; nil means the application's default
	GotifyPriority *int   // what Priority was converted from, for readers of Gotify's; nil if it came on another scale
	Extras         json.RawMessage
	IdempotencyKey string
	Source         string
	Attachments    []post.Attachment // stored by [Intake.Attach]

	Note string // a line of plain text above the message

	Thread  string        // the conversation that it belongs to; "" for none
	Group   string        // the group of alerts that it belongs to, in letters and digits; "" for none
	Crowd   post.Crowd    // its part in a group of many alerts
	Key     string        // names what it is about, such as an alert; "" for nothing that changes
	Names   int64         // the message that the key is the number of, as ntfy counts; 0 for none
	Change  Change        // what it does with the message of that key
	Began   time.Time     // when that began, if the sender says so: later reports of an earlier time are ignored
	Edits   int64         // the message of the application whose text it replaces; 0 for none
	Later   time.Time     // when to send it; zero for now
	Retry   time.Duration // between reminders at priority 2, until somebody acknowledges it; 0 for none
	Expire  time.Duration // …or until this is over; 0 means an hour
	EventAt time.Time     // when it happened, if the sender says so
}

// hideTokens removes the tokens of the application from all that people see: senders put theirs into titles, and into the addresses that they show.
func (r *Request) hideTokens(app *account.App) {
	for _, text := range []*string{&r.Title, &r.Message, &r.Note, &r.Thread, &r.Key} {
		*text = app.HideTokens(*text, r.Token)
	}
	r.Extras = json.RawMessage(app.HideTokens(string(request.Unescape(r.Extras)), r.Token))
	for i := range r.Attachments {
		r.Attachments[i].Name = app.HideTokens(r.Attachments[i].Name, r.Token)
	}
}

// hideJoined makes plain text of a body whose markup joins the parts of the request's own token.
func hideJoined(c *post.Content, token string) {
	if !post.MayJoin(c.Body, token) {
		return
	}
	_, text := format.Body(c.ContentType, c.Body)
	if hidden := post.HideToken(text, token); hidden != text {
		c.Body, c.ContentType = hidden, format.Plain
	}
}

// Change is what a request does with the message that was accepted under its key.
type Change int

// The changes. What Update and Resolve do depends on the life cycle that the application has, see [post.TakeReport].
const (
	Create  Change = iota // leaves that message and makes another
	Update                // reports the present state of its subject
	Resolve               // reports that its subject is over
)

const (
	maxKey    = 255
	maxExtras = 64 << 10
)

// entry validates a request and converts it to an outbox entry.
func (s *Intake) entry(app *store.Application, r Request, now time.Time) (e post.Entry, err error) {
	title, body := post.Clean(r.Title), post.Clean(r.Message)
	limits := s.o.Limits
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
		return e, refusal.Invalid("Idempotency-Key", fmt.Sprintf("A key has at most %d printable characters.", maxKey))
	}
	if err := checkReminders(r); err != nil {
		return e, err
	}
	if r.Change == Resolve && !r.Later.IsZero() {
		return e, refusal.Invalid("delay", "The end of an alert can't be delayed.")
	}
	if r.Change != Create && r.Key == "" {
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
	attachments, err := s.attached(r.Attachments)
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
	return post.Entry{
		Kind: kind, Target: r.Edits,
		Origin: post.Origin{Room: app.RoomID, ApplicationID: app.ID, AcceptedAt: at, Source: r.Source, Thread: r.Thread, Key: r.Key, Resolves: r.Change == Resolve, EventAt: post.Millis(r.EventAt)},
		Content: post.Content{
			Priority: priority, GotifyScale: gotifyScale(r.GotifyPriority), Title: title, Body: body, ContentType: post.FormatMarkdown.MediaType(r.ContentType, ""), Extras: post.Clean(string(r.Extras)), Attachments: attachments, Note: r.Note,
		},
		Txn: post.NewTxn(), QueuedAt: queued, NextAt: due, State: post.StateQueued,
	}, nil
}

// Accepted is a message that is durably in the outbox, as it was stored: without the outcome, unless Replay.
type Accepted struct {
	post.View
	Replay   bool // the idempotency key was known: this is the first answer again, with the present state
	Conflict bool // the key was known for another message: nothing was stored
}
