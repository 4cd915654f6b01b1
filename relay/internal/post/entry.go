package post

import (
	"cmp"
	"time"
)

// Kind is the effect of an entry in its room. The numbers are stored.
type Kind int

// The kinds. All but KindMessage have a target.
const (
	KindMessage   Kind = 0 // sends a message
	KindRedaction Kind = 1 // removes an event of its target
	KindFile      Kind = 2 // sends its content as a file
	KindEdit      Kind = 3 // replaces what its target's event says
	KindReaction  Kind = 4 // adds its body to its target's event, as a reaction
	KindReply     Kind = 5 // sends a message in the thread of its target
	KindMedia     Kind = 6 // sends an attachment of its target
)

// Content is the text and the attachments of an entry. The hash of its JSON is stored for idempotency keys, so a new field needs
// omitempty.
type Content struct {
	Title       string `json:",omitempty" written:"insert,edit"`
	Body        string `json:",omitempty" written:"insert,edit"`
	ContentType string `json:",omitempty" written:"insert,edit"` // "" means Markdown
	Extras      string `json:",omitempty" written:"insert,edit"` // JSON, as it was posted
	Priority    int    `json:",omitempty" written:"insert,edit"`
	GotifyScale int    `json:",omitempty" written:"insert,edit"` // the priority as it was sent on Gotify's scale, plus one; 0 if it came on another scale
	Mentions    string `json:",omitempty" written:"insert,edit"` // recipients of mentions, overriding Origin.Choice unless empty
	Note        string `json:",omitempty" written:"insert,edit"` // a line of the relay's own above the body
	Attachments string `json:",omitempty" written:"insert,edit"` // JSON of []Attachment; a KindMedia entry has one
}

// SourceRelay is the source of messages by the relay itself about an application.
const SourceRelay = "relay"

// SourceReminder is the source of reminders, which are replies.
const SourceReminder = "reminder"

// SourceDigest is the source of a message that collects others.
const SourceDigest = "digest"

// Origin describes the request that an entry comes from. A follow-up has the origin of its target; a reminder has its own source and time,
// and may go to another room.
type Origin struct {
	Room          int64  `written:"insert"` // rooms.id
	ApplicationID int64  `written:"insert"`
	AcceptedAt    int64  `written:"insert"`
	Source        string `written:"insert"`
	Thread        string `written:"insert"`      // the conversation within the application; "" for none
	Key           string `written:"insert"`      // names what the message is about: later drafts with it update or resolve the message; "" for none
	Resolves      bool   `written:"insert,edit"` // what the message is about is over: a later draft with its key is a new message
	EventAt       int64  `written:"insert"`      // when it happened, by the sender's clock; 0 if that is unknown
	Trace         string `written:"insert"`      // the span of the request, as tracing.Parent returns it
}

// Entry is an entry of the outbox. Times are Unix milliseconds; 0 means never. Each field is a column of the table, named as the
// field is. The tag written lists when the store writes it: with a new entry (insert; else the column has its default), with the
// result of each step (step), and with a changed content (edit).
type Entry struct {
	ID     int64
	Kind   Kind  `written:"insert"`
	Target int64 `written:"insert"` // the message that an entry completes, edits, reacts to or removes; 0 for a Message
	Place  int64 `written:"insert"` // ID of the entry in whose turn it is sent; 0 for its own turn
	Origin
	Content
	Txn      string `written:"insert,step"`
	QueuedAt int64  `written:"insert,step"` // accepted, delivered again or, if it was delayed, due: age counts from here

	State          State  `written:"insert,step"`
	Attempts       int    `written:"step"`
	NextAt         int64  `written:"insert,step"` // the time of the next attempt, or when a delayed entry, which is queued, is due
	FirstAttemptAt int64  `written:"step"`        // the earliest time at which a copy may have reached the homeserver
	FinalAt        int64  `written:"step"`
	Device         string `written:"step"` // the device of the first attempt
	EventType      string `written:"step"`
	Wire           []byte `written:"step"`        // the event as it was first sent; nil if it may be rendered again
	Cut            bool   `written:"step"`        // Wire doesn't hold the whole message
	Root           string `written:"step"`        // the first event of the thread that a Message replies in; "" without one
	RevisedAt      int64  `written:"insert,edit"` // when the content was replaced before the entry was sent; strictly increasing
	Error          string `written:"step"`        // a sentence
	Code           string `written:"step"`
	EventID        string `written:"insert,step"` // for a Redaction the event to remove, "" if it must be searched for
	Marker         string `written:"insert"`      // the transaction id of the event that a Redaction without EventID removes

	// Not stored.

	Plain       []byte `gorm:"-"` // the content that Wire encrypts
	Shrunk      Size   `gorm:"-"` // the event was too large and is rendered smaller
	TargetEvent string `gorm:"-"` // the target's EventID
	TargetAt    int64  `gorm:"-"` // the target's FirstAttemptAt
	TargetRoom  int64  `gorm:"-"` // the target's Room
	FromApplication
}

// FromApplication is what an entry takes of its application and its room when it is read. It isn't stored with the entry.
type FromApplication struct {
	Sender  string `gorm:"-"` // the application's name, if it precedes the title
	Mention string `gorm:"-"` // the Matrix ID of the application's owner
	Choice  string `gorm:"-"` // recipients of mentions that the application is set to, as in format.Message.Mentions
	Deleted bool   `gorm:"-"` // the application was deleted
	Barred  bool   `gorm:"-"` // it may not send to its room any more
}

// MessageID returns the id of the message that an entry belongs to.
func (e *Entry) MessageID() int64 {
	if e.Target != 0 {
		return e.Target
	}
	return e.ID
}

// Follow returns a queued entry that has e's message as its target and is sent in its place.
func (e *Entry) Follow(kind Kind, queuedAt int64) Entry {
	return Entry{Kind: kind, Target: e.MessageID(), Place: e.MessageID(), Origin: e.Origin, QueuedAt: queuedAt, State: StateQueued}
}

// AsFile returns the entry that sends the full text of e, a message or a reply, as a file in e's turn.
func (e *Entry) AsFile(queuedAt int64) Entry {
	f := e.Follow(KindFile, queuedAt)
	f.Place, f.Txn, f.Content = cmp.Or(e.Place, e.ID), e.Txn+"f", e.Content
	f.Attachments = "" // entries of their own send them
	return f
}

// Size returns the approximate size of an entry in memory, in bytes.
func (e *Entry) Size() int {
	return 400 + len(e.Title) + len(e.Body) + len(e.Extras) + len(e.Attachments) + len(e.Wire) + len(e.Plain)
}

// Size selects the largest size at which a message is rendered.
type Size int

// The sizes, each of which is tried after the homeserver has refused the one before.
const (
	SizeWhole  Size = iota
	SizeShort       // cut to a few kilobytes; a file has the full text
	SizeNotice      // says only that a file has the text
)

// Version detects concurrent changes: a save fails if the stored entry has another version.
type Version struct {
	State     State
	Attempts  int
	RevisedAt int64
}

// Version returns the entry's version.
func (e *Entry) Version() Version { return Version{e.State, e.Attempts, e.RevisedAt} }

// EditTo returns a queued edit that replaces the content of e's message by c.
func (e *Entry) EditTo(c Content, queuedAt int64) Entry {
	edit := e.Follow(KindEdit, queuedAt)
	edit.Content = c
	return edit
}

// Delayed reports whether an entry waits for its time.
func (e *Entry) Delayed() bool { return e.State == StateQueued && e.NextAt != 0 }

// Replaceable reports whether the content of a waiting entry may still be replaced: no copy of it is in the room, unless an attempt
// in progress sends one, which [Sent] reports.
func (e *Entry) Replaceable() bool {
	return e.State.Pending() && e.FirstAttemptAt == 0 && (e.Kind == KindMessage || e.Kind == KindEdit)
}

// Revise replaces the content of an entry that is [Entry.Replaceable], or whose state isn't [State.Editable]. Its attachments are kept.
func (e *Entry) Revise(c Content, at int64) {
	c.Attachments = JoinAttachments(e.Attachments, c.Attachments)
	e.Content, e.RevisedAt = c, max(at, e.RevisedAt+1)
}

// View is a message, or a follow-up, as people and readers see it.
type View struct {
	Entry
	ApplicationName string
	OwnerID         int64  // of the application
	Address         string // of the room: id or alias; "" while the relay is still to make it
	RoomID          string // resolved, "" if not yet
	Removing        bool   // the removal of its event from the room waits
}

// SentAt returns when a message reached its room; the zero time if it did not.
func (v View) SentAt() time.Time {
	if !v.State.Delivered() {
		return time.Time{}
	}
	return Time(v.FinalAt)
}

// Files returns the attachments.
func (c Content) Files() []Attachment { return DecodeAttachments(c.Attachments) }

// Time converts a stored time to UTC; 0 is the zero time.
func Time(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

// Millis converts a time for storage; the zero time is 0.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
