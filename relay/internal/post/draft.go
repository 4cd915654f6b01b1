package post

import "time"

// Draft is a message as its sender posted it.
type Draft struct {
	Content
	Priority       *int // −2 … 2, in place of that of the content; nil means the application's default
	Token          string
	IdempotencyKey string
	Source         string
	Files          []Attachment // stored already, but in no content

	Thread  string        // the conversation that it belongs to; "" for none
	Topic   string        // what it is about, such as a repository, if a digest of the application shall collect it only with others about that; "" for all
	Group   string        // the group of alerts that it belongs to, in letters and digits; "" for none
	Crowd   Crowd         // its part in a group of many alerts
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

// Change is the effect of a request on the message that was accepted under its key.
type Change int

// The changes. The effect of Update and Resolve depends on the application's alert settings, see [TakeReport].
const (
	Create  Change = iota // leaves that message and makes another
	Update                // reports the present state of its subject
	Resolve               // reports that its subject is over
)

// Accepted is a message that is durably in the outbox, as it was stored: without the outcome, unless it is a replay.
type Accepted struct {
	View
	Replay   bool // the idempotency key was known: this is the first answer again, with the present state
	Conflict bool // the key was known for another message: nothing was stored
}
