package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"slipway/relay/internal/message"
)

// What follows writes many rows by one statement. A server of its own makes the round trips what a commit costs: with one
// for each row PostgreSQL took 400 messages a second (docs/decisions/0016-measured-costs.md). SQLite has none.

// storeEach writes results in their order, those of events that were sent together.
func (w *writer) storeEach(ctx context.Context, all []*Outcome) error {
	if !w.d.numbered {
		for _, o := range all {
			if err := w.storeOutcome(ctx, o); err != nil {
				return err
			}
		}
		return nil
	}
	for len(all) > 0 {
		n := 0
		for n < len(all) && all[n].plain() {
			n++
		}
		if n > 1 {
			if err := w.storeSent(ctx, all[:n]); err != nil {
				return err
			}
			all = all[n:]
			continue
		}
		if err := w.storeOutcome(ctx, all[0]); err != nil {
			return err
		}
		all = all[1:]
	}
	return nil
}

// plain tells whether an event was sent and nothing else has to be stored.
func (o *Outcome) plain() bool {
	return o.Entry.Kind == message.Send && o.Entry.State == message.StateSent && o.Entry.Error == "" && o.FollowUp == nil
}

// storeSent writes results that are plain. One whose entry is final already is looked at by itself.
func (w *writer) storeSent(ctx context.Context, all []*Outcome) error {
	var ids, attempts, at []int64
	var events []string
	for _, o := range all {
		o.dropped, o.counts = false, true
		ids, attempts, at = append(ids, o.Entry.ID), append(attempts, int64(o.Entry.Attempts)), append(at, o.At)
		events = append(events, message.Clean(o.Entry.EventID)) // PostgreSQL takes no NUL
	}
	rows, err := w.sql.sentAll.QueryContext(ctx, ids, attempts, events, at)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	stored := make(map[int64]bool, len(all))
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		stored[id] = true
	}
	if err := rows.Err(); err != nil || len(stored) == len(all) {
		return err
	}
	for _, o := range all {
		if stored[o.Entry.ID] {
			delete(stored, o.Entry.ID) // a second result of the same entry finds it final
		} else if err := w.storeOutcome(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// maxInsert is how many bytes one INSERT writes: the relay and the server hold all of them in memory, several times.
const maxInsert = 4 << 20

// fitting is how many messages have at most so many bytes together, at least one.
func fitting(all []*Accept, most int) int {
	for n, size := 0, 0; n < len(all); n++ {
		if size += all[n].Entry.Size(); size > most {
			return max(n, 1)
		}
	}
	return len(all)
}

// insertAll writes messages with their outbox rows. Their transaction ids tell which id is whose.
func (w *writer) insertAll(ctx context.Context, all []*Accept) error {
	n := len(all)
	room, queued, application, accepted, priority := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	txn, source, title, body, format, extras := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	byTxn := make(map[string]*message.Entry, n)
	for i, a := range all {
		e := &a.Entry
		byTxn[e.Txn] = e
		room[i], queued[i], application[i], accepted[i], priority[i] = e.Room, e.QueuedAt, e.ApplicationID, e.AcceptedAt, int64(e.Priority)
		txn[i], source[i], title[i], body[i], format[i], extras[i] = e.Txn, e.Source, e.Title, e.Body, e.ContentType, e.Extras
	}
	rows, err := w.sql.insertAll.QueryContext(ctx, room, txn, queued, application, accepted, priority, source, title, body, format, extras)
	if err != nil {
		return err
	}
	return takeIDs(rows, byTxn)
}

// takeIDs reads the ids that entries were given, each with its transaction id.
func takeIDs(rows *sql.Rows, byTxn map[string]*message.Entry) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int64
		var txn string
		if err := rows.Scan(&id, &txn); err != nil {
			return err
		}
		byTxn[txn].ID = id
	}
	return rows.Err()
}

// countAll adds what happened to messages to their hours and to the applications' totals, each relay in the same order, so that
// they do not wait for each other.
func (w *writer) countAll(ctx context.Context) error {
	if len(w.counts.of) == 0 {
		return nil
	}
	var hour, application, accepted, sent, dead []int64
	totals := map[int64]count{}
	for _, k := range w.counts.keys() {
		n := w.counts.of[k]
		hour, application = append(hour, k.Hour), append(application, k.ApplicationID)
		accepted, sent, dead = append(accepted, n.accepted), append(sent, n.sent), append(dead, n.dead)
		t := totals[k.ApplicationID]
		totals[k.ApplicationID] = count{t.accepted + n.accepted, t.sent + n.sent, t.dead + n.dead, max(t.lastUsed, n.lastUsed)}
	}
	if _, err := w.sql.statAll.ExecContext(ctx, hour, application, accepted, sent, dead); err != nil {
		return err
	}
	application, accepted, sent, dead = application[:0], accepted[:0], sent[:0], dead[:0]
	var used []int64
	for id, n := range totals {
		application, accepted, sent, dead, used = append(application, id), append(accepted, n.accepted), append(sent, n.sent), append(dead, n.dead), append(used, n.lastUsed)
	}
	_, err := w.sql.totalAll.ExecContext(ctx, application, accepted, sent, dead, used)
	return err
}

// keys are the hours and applications that something happened in, in order.
func (c *counts) keys() []Stat {
	keys := make([]Stat, 0, len(c.of))
	for k := range c.of {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Stat) int {
		return cmp.Or(cmp.Compare(a.ApplicationID, b.ApplicationID), cmp.Compare(a.Hour, b.Hour))
	})
	return keys
}

// What PostgreSQL is told for many rows. Of the rows that an UPDATE and a SELECT … FOR UPDATE touch the latter gives the order.
const (
	sentAllText = `UPDATE outbox o SET state = 'sent', attempts = n.attempts, event_id = n.event_id, final_at = n.at, next_at = 0, error = '', code = '', wire = NULL
		FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) AS n (id, attempts, event_id, at) WHERE o.id = n.id AND o.final_at = 0 RETURNING o.id`

	insertAllText = `WITH n AS (
			SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[])
			WITH ORDINALITY AS n (room, txn, queued_at, application_id, accepted_at, priority, source, title, body, content_type, extras, nth)
		), o AS (
			INSERT INTO outbox (kind, room, state, txn, queued_at) SELECT 0, room, 'queued', txn, queued_at FROM n ORDER BY nth RETURNING id, txn
		), m AS (
			INSERT INTO messages (` + messageColumns + `)
			SELECT o.id, application_id, accepted_at, priority, source, title, body, content_type, nullif(extras, '') FROM n JOIN o USING (txn)
		) SELECT id, txn FROM o`

	statAllText = `INSERT INTO stats (hour, application_id, accepted, sent, dead)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
		ON CONFLICT (hour, application_id) DO UPDATE
		SET accepted = stats.accepted + excluded.accepted, sent = stats.sent + excluded.sent, dead = stats.dead + excluded.dead`

	totalAllText = `WITH locked AS MATERIALIZED (SELECT id FROM applications WHERE id = ANY($1::bigint[]) ORDER BY id FOR NO KEY UPDATE)
		UPDATE applications a SET accepted = a.accepted + n.accepted, sent = a.sent + n.sent, dead = a.dead + n.dead, last_used = greatest(a.last_used, n.last_used)
		FROM locked l, unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS n (id, accepted, sent, dead, last_used)
		WHERE a.id = l.id AND n.id = l.id`
)
