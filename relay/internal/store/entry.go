package store

// State is the state of an outbox row as it is stored.
type State int

// The states. Those below Sent are on their way and are found by the index outbox_pending.
const (
	Queued    State = 0
	RetryWait State = 1
	Sent      State = 10
	Ambiguous State = 11
	Dead      State = 12
	Cancelled State = 13
	Redacted  State = 14
)

// Op is what an outbox row does in its room.
type Op int

// The operations.
const (
	OpSend   Op = 0
	OpRedact Op = 1
)

// Entry is an outbox row that is on its way, together with the message it is about.
type Entry struct {
	ID            int64 // given at the commit
	MessageID     int64 // the message it is about; its own id for OpSend
	Op            Op
	ApplicationID int64
	Room          int64 // rooms.id
	Txn           string
	AcceptedAt    int64
	QueuedAt      int64
	Priority      int
	Source        string
	Title         string
	Body          string
	ContentType   string
	Extras        string

	State          State
	Attempts       int
	NextAt         int64
	Step           int
	FirstAttemptAt int64
	Device         string
	EventType      string
	Wire           []byte
	Error          string
	Code           string
	EventID        string // OpRedact: the event to remove. OpSend at step 1: the event that was sent
	Shrunk         bool   // not stored: the event was too large and is rendered smaller
}

// Size is about how many bytes of memory the message holds. It stays the same for the entry's life.
func (e *Entry) Size() int {
	return 400 + len(e.Title) + len(e.Body) + len(e.Extras)
}

// Key is an idempotency key with what it stands for.
type Key struct {
	Key  string
	Hash []byte // of the request; another one under the same key is a conflict
}

// Receipt tells what [Store.Accept] did.
type Receipt struct {
	ID         int64
	Priority   int
	AcceptedAt int64
	Replay     bool // the key was known, with the same hash: these are the first request's values
	Conflict   bool // the key was known with another hash: nothing was stored
}

// Outcome is what an attempt made of an entry.
type Outcome struct {
	Entry    Entry // a copy, with the new values of all fields that an attempt may change
	At       int64
	SentNow  bool // counts as a delivery
	DeadNow  bool // counts as given up
	Failure  string
	TargetID int64 // OpRedact: the row whose event is gone, or that gets Failure
}
