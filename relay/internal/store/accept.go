package store

import (
	"bytes"
	"context"
	"slices"

	"slipway/relay/internal/message"
)

// Key is an idempotency key with what it stands for.
type Key struct {
	Key  string
	Hash []byte // of the request; another one under the same key is a conflict
}

// Accept is a message to be stored, and afterwards what became of it.
type Accept struct {
	Entry message.Entry // gets its id
	Key   *Key          // nil without one

	Replay   bool // the key was known, with the same hash: Entry has the first request's id, priority and time
	Conflict bool // the key was known with another hash: nothing was stored
	Batch    int  // how many messages were stored in this commit; set on the first of them, else 0
}

func (a *Accept) stored() bool { return !a.Replay && !a.Conflict }

// Accept stores messages with their outbox rows, all or none, and returns when they are flushed to disk.
func (s *Store) Accept(ctx context.Context, messages ...*Accept) error {
	return s.w.do(ctx, &request{accept: messages})
}

// storeAccepted gives the messages their ids and writes them with their outbox rows.
func (w *writer) storeAccepted(ctx context.Context, requests []*request) error {
	var fresh []*Accept
	for _, r := range requests {
		for _, a := range r.accept {
			a.Replay, a.Conflict, a.Batch = false, false, 0
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
		if _, err := w.sql.nameKey.ExecContext(ctx, a.Entry.ID, a.Entry.ApplicationID, a.Key.Key); err != nil {
			return err
		}
	}
	return w.nameReplays(ctx, requests)
}

func (w *writer) insertFresh(ctx context.Context, all []*Accept) error {
	if w.d.numbered && len(all) > 0 {
		if err := w.lockRooms(ctx, all); err != nil {
			return err
		}
	}
	for len(all) > 0 {
		n, insert := min(len(all), maxRows), w.insert
		if w.d.numbered {
			n, insert = fitting(all, maxInsert), w.insertAll
		}
		if err := insert(ctx, all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// lockRooms keeps other relays from adding to the rooms until the commit: ids are given in the order of commits, so nobody who
// reads a room sees a message before one that comes earlier.
func (w *writer) lockRooms(ctx context.Context, all []*Accept) error {
	rooms := make([]int64, 0, len(all))
	for _, a := range all {
		rooms = append(rooms, a.Entry.Room)
	}
	slices.Sort(rooms)
	_, err := w.sql.conn.ExecContext(ctx, `SELECT 1 FROM rooms WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, slices.Compact(rooms))
	return err
}

// nameReplays gives the id to repetitions that arrived together with the first request: it had none when its key was taken.
func (w *writer) nameReplays(ctx context.Context, requests []*request) error {
	for _, r := range requests {
		for _, a := range r.accept {
			if a.stored() || a.Entry.ID != 0 {
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

// insert writes messages. Nobody else writes, so one statement gives its rows ids without gaps, and the last of them says all.
func (w *writer) insert(ctx context.Context, all []*Accept) error {
	args := make([]any, 0, 9*len(all))
	for _, a := range all {
		e := &a.Entry
		args = append(args, int64(message.Send), e.Room, string(message.StateQueued), e.Txn, e.QueuedAt)
	}
	if err := w.sql.prepareInsert(ctx, w.sql.outbox, "outbox", outboxColumns, len(all)); err != nil {
		return err
	}
	r, err := w.sql.outbox[len(all)].ExecContext(ctx, args...)
	if err != nil {
		return err
	}
	last, err := r.LastInsertId()
	if err != nil {
		return err
	}
	args = args[:0]
	for i, a := range all {
		e := &a.Entry
		e.ID = last - int64(len(all)-1-i)
		args = append(args, e.ID, e.ApplicationID, e.AcceptedAt, e.Priority, e.Source, e.Title, e.Body, e.ContentType, null(e.Extras))
	}
	if err := w.sql.prepareInsert(ctx, w.sql.messages, "messages", messageColumns, len(all)); err != nil {
		return err
	}
	_, err = w.sql.messages[len(all)].ExecContext(ctx, args...)
	return err
}

func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}
