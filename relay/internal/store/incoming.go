package store

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"

	"slipway/relay/internal/post"
)

// Key is an idempotency key with what it stands for.
type Key struct {
	Key  string
	Hash []byte // of the request; another one under the same key is a conflict
}

// Incoming is a message to be stored, and afterwards its outcome.
type Incoming struct {
	Entry post.Entry // gets its id
	Key   *Key       // nil without one

	// Relate stores a message that may concern an earlier one, in place of inserting Entry; nil inserts it. It runs in the transaction,
	// perhaps more than once, and sets Replay, Gone or Skipped if it stores no message.
	Relate func(tx *Tx, a *Incoming) error

	Replay   bool // it was accepted before: Entry has the first request's id, priority and time
	Conflict bool // the key was known with another hash: nothing was stored
	Gone     bool // the message to edit was withdrawn: nothing was stored
	Skipped  bool // the message of its group says it

	given *post.Entry // Entry as it came
}

// cameAt returns when the message came in; 0 if it was stored earlier under its idempotency key.
func (a *Incoming) cameAt() int64 {
	switch {
	case a.given != nil && !a.Conflict && !a.Gone && (!a.Replay || a.Key == nil):
		return a.given.AcceptedAt
	case a.stored():
		return a.Entry.AcceptedAt
	}
	return 0
}

func (a *Incoming) stored() bool { return !a.Replay && !a.Conflict && !a.Gone && !a.Skipped }

// Insert stores messages, all or none, and returns when they are flushed to disk.
func (s *Store) Insert(ctx context.Context, messages ...*Incoming) error {
	return s.w.do(ctx, &part{incoming: messages})
}

// storeIncoming gives the messages their ids and writes them.
func (tx *Tx) storeIncoming(parts []*part) error {
	var fresh []*Incoming
	for _, p := range parts {
		for _, a := range p.incoming {
			a.begin()
			if err := tx.takeKey(a); err != nil {
				return err
			}
			if a.stored() {
				fresh = append(fresh, a)
			}
		}
	}
	if err := tx.insertFresh(fresh); err != nil {
		return err
	}
	for _, a := range fresh {
		if a.Key == nil {
			continue
		}
		if _, err := tx.sql.nameKey.ExecContext(tx.ctx, a.Entry.MessageID(), a.Entry.ApplicationID, a.Key.Key); err != nil {
			return err
		}
	}
	return tx.nameReplays(parts)
}

// begin resets the outcome of an attempt that failed.
func (a *Incoming) begin() {
	if a.given != nil {
		a.Entry = *a.given
	} else if a.Relate != nil {
		given := a.Entry
		a.given = &given
	}
	a.Replay, a.Conflict, a.Gone, a.Skipped = false, false, false, false
}

// insertFresh writes messages. Other relays don't add to the rooms until the commit: ids are given in the order of commits, so a
// reader of a room never sees a message before an earlier one.
func (tx *Tx) insertFresh(all []*Incoming) error {
	if len(all) == 0 {
		return nil
	}
	rooms := make([]int64, len(all))
	for i, a := range all {
		rooms[i] = a.Entry.Room
	}
	if err := tx.sql.d.lock(tx.ctx, tx.sql.conn, "rooms", rooms); err != nil {
		return err
	}
	var entries []*post.Entry
	for _, a := range all {
		if a.Relate == nil {
			entries = append(entries, &a.Entry)
			continue
		}
		if err := tx.sql.insertEntries(tx.ctx, entries...); err != nil { // one of them may be the target
			return err
		}
		entries = nil
		if err := a.Relate(tx, a); err != nil {
			return err
		}
	}
	if err := tx.sql.insertEntries(tx.ctx, entries...); err != nil {
		return err
	}
	return tx.keepAttachments(all)
}

// nameReplays gives the id to repetitions that arrived together with the first request: it had none when its key was taken.
func (tx *Tx) nameReplays(parts []*part) error {
	for _, p := range parts {
		for _, a := range p.incoming {
			if a.stored() || a.Gone || a.Skipped || a.Entry.ID != 0 {
				continue
			}
			if _, err := tx.readKey(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeKey takes a message's key, or answers from what the key stands for already.
func (tx *Tx) takeKey(a *Incoming) error {
	if a.Key == nil {
		return nil
	}
	e := &a.Entry
	r, err := tx.sql.takeKey.ExecContext(tx.ctx, e.ApplicationID, a.Key.Key, a.Key.Hash, e.Priority, e.AcceptedAt)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 1 {
		return err
	}
	hash, err := tx.readKey(a)
	a.Replay = bytes.Equal(hash, a.Key.Hash)
	a.Conflict = !a.Replay
	return err
}

// readKey takes over what is stored of the first request under a key, and returns the hash of that.
func (tx *Tx) readKey(a *Incoming) (hash []byte, err error) {
	e := &a.Entry
	err = tx.sql.key.QueryRowContext(tx.ctx, e.ApplicationID, a.Key.Key).Scan(&hash, &e.ID, &e.Priority, &e.AcceptedAt)
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
		if !e.State.Initial() {
			return fmt.Errorf("no message begins as %q", e.State)
		}
		byTxn[e.Txn], rows[i] = e, insertColumns.of(e)
		for _, field := range rows[i] {
			if text, ok := field.(*string); ok {
				*text = post.Clean(*text) // PostgreSQL takes no NUL, and would refuse all messages of the commit
			}
		}
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
