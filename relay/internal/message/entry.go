package message

// Kind is what an entry of the outbox does in its room.
type Kind int

// The kinds. An entry that is no Send follows up on one: Entry.After is its id.
const (
	Send   Kind = 0
	Redact Kind = 1 // removes the event of the message, or the file behind it
	File   Kind = 2 // the full text of a message that was cut
	Part   Kind = 3 // the next of the events that a long message is split into
)

// Entry is an entry of the outbox that is on its way, with what is needed of its message. Times are Unix milliseconds.
type Entry struct {
	ID             int64
	Kind           Kind
	After          int64 // the message that a follow-up is about; 0 for Send, whose message has the entry's own id
	Room           int64 // rooms.id
	Txn            string
	QueuedAt       int64 // accepted or delivered again: age counts from here
	State          State
	Attempts       int
	NextAt         int64
	FirstAttemptAt int64 // the earliest time at which a copy may have reached the homeserver; 0 if none has
	Device         string
	EventType      string
	Wire           []byte // the event as it was first sent; nil if it may be rendered anew
	Plain          []byte // not stored: what Wire was encrypted of
	Cut            bool   // Wire does not hold the whole message
	Error          string
	Code           string
	EventID        string // of Redact: the event to remove, "" if it must be looked for under TargetTxn
	Shrunk         bool   // not stored: the event was too large and is rendered smaller

	ApplicationID int64
	AcceptedAt    int64
	Priority      int
	Source        string
	Title         string
	Body          string
	ContentType   string
	Extras        string

	// Set on entries that are read for delivery.
	Sender    string // the application's name if it belongs before the title
	Mention   string // the Matrix id of the application's owner
	Whom      string // whom high priorities mention, see account.Mention
	Deleted   bool   // the application was deleted
	TargetTxn string // of follow-ups: the message's transaction id
	TargetAt  int64  // of follow-ups: when the message may first have reached the homeserver
}

// MessageID is the id of the message that an entry is about.
func (e *Entry) MessageID() int64 {
	if e.After != 0 {
		return e.After
	}
	return e.ID
}

// Size is about how many bytes of memory an entry takes.
func (e *Entry) Size() int {
	return 400 + len(e.Title) + len(e.Body) + len(e.Extras) + len(e.Wire) + len(e.Plain)
}
