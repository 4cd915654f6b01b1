package relay

import "slipway/relay/internal/store"

// failedBehind counts a failure of an entry behind a message, and returns how many it
// has had since this start.
func (q *queue) failedBehind(id int64) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.behind.id != id {
		q.behind.id, q.behind.failed = id, 0
	}
	q.behind.failed++
	return q.behind.failed
}

// replacedSince returns the room that an earlier attempt of an entry went to, if another
// has taken its place since; else "".
func (q *queue) replacedSince(e *store.Entry) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.FirstAttemptAt == 0 || e.FirstAttemptAt >= q.room.ReplacedAt {
		return ""
	}
	return q.room.Replaced
}

// remember keeps what an attempt has come to, until the database surely knows.
func (q *queue) remember(e *store.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tried = *e
	q.tried.Title, q.tried.Body, q.tried.Extras, q.tried.Wire = "", "", "", nil
}

// lastError returns why the last attempt in the room failed; "" if it did not.
func (q *queue) lastError() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tried.Error
}

// recall brings an entry that was read up to date, as far as the database could not store
// what its last attempt has come to. q.mu is held.
func (q *queue) recall(e *store.Entry) {
	t := &q.tried
	if t.ID != e.ID || t.Txn != e.Txn || e.Attempts >= t.Attempts && e.FirstAttemptAt == t.FirstAttemptAt && e.Step == t.Step {
		return
	}
	e.Attempts, e.FirstAttemptAt, e.Device, e.Step, e.EventID, e.Shrunk = t.Attempts, t.FirstAttemptAt, t.Device, t.Step, t.EventID, t.Shrunk
	e.Wire = nil // rendered anew: the same under its transaction id
}
