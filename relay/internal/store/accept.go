package store

import (
	"bytes"
	"context"
	"database/sql"

	"slipway/relay/internal/post"
)

// Key is an idempotency key with what it stands for.
type Key struct {
	Key  string
	Hash []byte // of the request; another one under the same key is a conflict
}

// Accept is a message to be stored, and afterwards its outcome.
type Accept struct {
	Entry post.Entry // gets its id
	Key   *Key       // nil without one

	Report    *post.Report   // what the message says of the alert that has the entry's key; nil if it is about none
	Lifecycle post.Lifecycle // of the application
	Names     int64          // the message that the entry's key is the number of; 0 for none
	Crowd     post.Crowd     // the part in a group of many alerts
	CrowdKey  string         // of the alert that stands for the group
	Group     string         // of alerts that share a thread as long as one of them is open; "" for none

	Window int64  // in milliseconds: within it the message is collected with others; 0 means it is sent
	Topic  string // of the digest that may collect it; "" for the one of the application
	Line   string // that stands for it in a digest

	Replay   bool // it was accepted before: Entry has the first request's id, priority and time
	Conflict bool // the key was known with another hash: nothing was stored
	Gone     bool // the message to edit was withdrawn: nothing was stored
	Batch    int  // how many messages were stored in this commit; set on the first of them, else 0
	Altered  bool // it changes another entry
	Skipped  bool // the message of its group says it

	given *post.Entry // Entry as it came
}

// cameAt returns when the message came in; 0 if it was stored earlier under its idempotency key.
func (a *Accept) cameAt() int64 {
	switch {
	case a.given != nil && !a.Conflict && !a.Gone && (!a.Replay || a.Key == nil):
		return a.given.AcceptedAt
	case a.stored():
		return a.Entry.AcceptedAt
	}
	return 0
}

func (a *Accept) stored() bool { return !a.Replay && !a.Conflict && !a.Gone && !a.Skipped }

// Accept stores messages, all or none, and returns when they are flushed to disk.
func (s *Store) Accept(ctx context.Context, messages ...*Accept) error {
	return s.w.do(ctx, &request{accept: messages})
}

// storeAccepted gives the messages their ids and writes them.
func (w *writer) storeAccepted(ctx context.Context, requests []*request) error {
	var fresh []*Accept
	for _, r := range requests {
		for _, a := range r.accept {
			a.begin()
			if err := w.takeKey(ctx, a); err != nil {
				return err
			}
			if a.stored() {
				fresh = append(fresh, a)
			}
		}
	}
	if len(fresh) > 0 {
		fresh[0].Batch = len(fresh)
	}
	if err := w.insertFresh(ctx, fresh); err != nil {
		return err
	}
	for _, a := range fresh {
		if a.Key == nil {
			continue
		}
		if _, err := w.sql.nameKey.ExecContext(ctx, a.Entry.MessageID(), a.Entry.ApplicationID, a.Key.Key); err != nil {
			return err
		}
	}
	return w.nameReplays(ctx, requests)
}

// begin resets the outcome of an attempt that failed.
func (a *Accept) begin() {
	if a.given != nil {
		a.Entry = *a.given
	} else if a.related() {
		given := a.Entry
		a.given = &given
	}
	a.Replay, a.Conflict, a.Gone, a.Batch, a.Altered, a.Skipped, a.Entry.State = false, false, false, 0, false, false, post.StateQueued
}

// insertFresh writes messages. Other relays don't add to the rooms until the commit: ids are given in the order of commits, so a
// reader of a room never sees a message before an earlier one.
func (w *writer) insertFresh(ctx context.Context, all []*Accept) error {
	if len(all) == 0 {
		return nil
	}
	rooms := make([]int64, len(all))
	for i, a := range all {
		rooms[i] = a.Entry.Room
	}
	if err := w.d.lock(ctx, w.sql.conn, "rooms", rooms); err != nil {
		return err
	}
	var entries []*post.Entry
	for _, a := range all {
		if !a.related() {
			entries = append(entries, &a.Entry)
			continue
		}
		if err := w.sql.insertEntries(ctx, entries...); err != nil { // one of them may be the target
			return err
		}
		entries = nil
		if err := (&Tx{db: w.rows.WithContext(ctx), ctx: ctx, sql: w.sql, w: w}).relate(a); err != nil {
			return err
		}
	}
	if err := w.sql.insertEntries(ctx, entries...); err != nil {
		return err
	}
	return w.keepAttachments(ctx, all)
}

// nameReplays gives the id to repetitions that arrived together with the first request: it had none when its key was taken.
func (w *writer) nameReplays(ctx context.Context, requests []*request) error {
	for _, r := range requests {
		for _, a := range r.accept {
			if a.stored() || a.Gone || a.Skipped || a.Entry.ID != 0 {
				continue
			}
			if _, err := w.readKey(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeKey takes a message's key, or answers from what the key stands for already.
func (w *writer) takeKey(ctx context.Context, a *Accept) error {
	if a.Key == nil {
		return nil
	}
	e := &a.Entry
	r, err := w.sql.takeKey.ExecContext(ctx, e.ApplicationID, a.Key.Key, a.Key.Hash, e.Priority, e.AcceptedAt)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 1 {
		return err
	}
	hash, err := w.readKey(ctx, a)
	a.Replay = bytes.Equal(hash, a.Key.Hash)
	a.Conflict = !a.Replay
	return err
}

// readKey takes over what is stored of the first request under a key, and returns the hash of that.
func (w *writer) readKey(ctx context.Context, a *Accept) (hash []byte, err error) {
	e := &a.Entry
	err = w.sql.key.QueryRowContext(ctx, e.ApplicationID, a.Key.Key).Scan(&hash, &e.ID, &e.Priority, &e.AcceptedAt)
	return hash, err
}

var insertText = many{
	before: `INSERT INTO outbox (` + insertColumns.list("") + `) VALUES `, row: placeholders(len(insertColumns)), after: ` RETURNING id, txn`,
}

// insertEntries writes entries and gives them their ids, in order. Their transaction ids tell which id is whose.
func (s *statements) insertEntries(ctx context.Context, entries ...*post.Entry) error {
	rows, byTxn := make([][]any, len(entries)), make(map[string]*post.Entry, len(entries))
	for i, e := range entries {
		if e.Txn == "" {
			e.Txn = post.NewTxn()
		}
		e.State = post.StateQueued
		byTxn[e.Txn], rows[i] = e, insertColumns.of(e)
	}
	return s.query(ctx, s.insert, rows, func(r *sql.Rows) error {
		var id int64
		var txn string
		err := r.Scan(&id, &txn)
		if e := byTxn[txn]; err == nil && e != nil {
			e.ID = id
		}
		return err
	})
}
