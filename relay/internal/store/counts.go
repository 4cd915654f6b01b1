package store

import (
	"context"
	"errors"
	"time"
)

// wasSent tells of a row o of the outbox whether its message came into the room: it is sent, or was and is removed
// since, or its event is there and the file is still to follow.
const wasSent = `(o.state IN (10, 14) OR o.step = 1)`

// Recount counts the applications' messages and those of the hours since, as is needed after a crash.
func (s *Store) Recount(ctx context.Context, since int64) error {
	return s.Update(ctx, func(tx *Tx) error {
		return errors.Join(
			tx.Exec(`UPDATE applications SET
				accepted = purged_accepted + (SELECT count(*) FROM messages m WHERE m.application_id = applications.id),
				sent = purged_sent + (SELECT count(*) FROM messages m JOIN outbox o ON o.id = m.id WHERE m.application_id = applications.id AND `+wasSent+`)`).Error,
			// What an hour counted of messages that are removed or delivered again since is more than its rows show.
			tx.Exec(`INSERT INTO stats (hour, application_id, accepted, sent, dead)
				SELECT hour, application_id, sum(accepted), sum(sent), sum(dead) FROM (
					SELECT accepted_at / 3600000 AS hour, application_id, 1 AS accepted, 0 AS sent, 0 AS dead FROM messages
					UNION ALL
					SELECT o.rested_at / 3600000, m.application_id, 0, o.state IN (10, 14), o.state = 12 FROM messages m JOIN outbox o ON o.id = m.id
				) AS n WHERE hour >= ? GROUP BY hour, application_id
				ON CONFLICT (hour, application_id) DO UPDATE SET accepted = max(accepted, excluded.accepted), sent = max(sent, excluded.sent), dead = max(dead, excluded.dead)`, since).Error,
		)
	})
}

// counts are what happened to messages since it was last written down. After a crash up to a second of them is
// missing; [Store.Recount] makes up for it.
type counts map[Stat]*tally

type tally struct{ accepted, sent, dead, lastUsed int64 }

func (c counts) dirty() bool { return len(c) > 0 }

func (c counts) at(application, millis int64) *tally {
	k := Stat{Hour: millis / time.Hour.Milliseconds(), ApplicationID: application}
	t := c[k]
	if t == nil {
		t = &tally{}
		c[k] = t
	}
	return t
}

// count adds a committed batch.
func (w *writer) count(b *batch, c Commit) {
	if b.counted {
		clear(w.counts)
	}
	clean := !w.counts.dirty()
	for _, e := range c.Accepted {
		t := w.counts.at(e.ApplicationID, e.AcceptedAt)
		t.accepted++
		t.lastUsed = max(t.lastUsed, e.AcceptedAt)
	}
	for _, o := range c.Outcomes {
		if o.SentNow {
			w.counts.at(o.Entry.ApplicationID, o.At).sent++
		}
		if o.DeadNow {
			w.counts.at(o.Entry.ApplicationID, o.At).dead++
		}
	}
	if clean && w.counts.dirty() {
		w.countDue.Reset(statsInterval)
	}
}

func (w *writer) storeCounts(ctx context.Context) error {
	for k, t := range w.counts {
		if _, err := w.sql.stat.ExecContext(ctx, k.Hour, k.ApplicationID, t.accepted, t.sent, t.dead); err != nil {
			return err
		}
		if _, err := w.sql.total.ExecContext(ctx, t.accepted, t.sent, t.dead, t.lastUsed, k.ApplicationID); err != nil {
			return err
		}
	}
	return nil
}
