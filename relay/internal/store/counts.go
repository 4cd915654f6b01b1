package store

import (
	"context"
	"errors"
	"time"

	"slipway/relay/internal/message"
)

// counts are what happened to messages since it was last written down. After a crash up to a second of them is
// missing; [Store.Recount] makes up for it.
type counts struct {
	of  map[Stat]*count // by hour and application, the other fields of Stat are 0
	due time.Time
}

type count struct{ accepted, sent, dead, lastUsed int64 }

func (c *counts) empty() bool { return len(c.of) == 0 }

func (c *counts) overdue() bool { return !c.empty() && !time.Now().Before(c.due) }

func (c *counts) clear() { clear(c.of) }

func (c *counts) at(application, millis int64) *count {
	k := Stat{Hour: millis / time.Hour.Milliseconds(), ApplicationID: application}
	n := c.of[k]
	if n == nil {
		n = &count{}
		if c.of == nil {
			c.of = map[Stat]*count{}
		}
		c.of[k] = n
	}
	return n
}

func (c *counts) accepted(e *message.Entry) {
	n := c.at(e.ApplicationID, e.AcceptedAt)
	n.accepted++
	n.lastUsed = max(n.lastUsed, e.AcceptedAt)
}

func (c *counts) outcome(o *Outcome) {
	switch e := &o.Entry; {
	case e.Kind != message.Send || !o.counts:
	case e.State == message.StateSent:
		c.at(e.ApplicationID, o.At).sent++
	case e.State == message.StateDead:
		c.at(e.ApplicationID, o.At).dead++
	}
}

func (w *writer) storeCounts(ctx context.Context) error {
	if w.d.numbered {
		return w.countAll(ctx)
	}
	for _, k := range w.counts.keys() {
		if err := w.sql.count(ctx, k, *w.counts.of[k]); err != nil {
			return err
		}
	}
	return nil
}

// count adds to what happened in an hour and to an application's totals.
func (s *statements) count(ctx context.Context, k Stat, n count) error {
	if _, err := s.stat.ExecContext(ctx, k.Hour, k.ApplicationID, n.accepted, n.sent, n.dead); err != nil {
		return err
	}
	_, err := s.total.ExecContext(ctx, n.accepted, n.sent, n.dead, n.lastUsed, n.lastUsed, k.ApplicationID)
	return err
}

// wasSent says whether the message of a row o of the outbox came into the room.
const wasSent = `o.state IN ('sent', 'redacted')`

// Recount counts the applications' messages and those of the hours since, as is needed after a crash.
func (s *Store) Recount(ctx context.Context, since int64) error {
	return s.Update(ctx, func(tx *Tx) error {
		return errors.Join(
			tx.exec(`UPDATE applications SET
				accepted = purged_accepted + (SELECT count(*) FROM messages m WHERE m.application_id = applications.id),
				sent = purged_sent + (SELECT count(*) FROM messages m JOIN outbox o ON o.id = m.id WHERE m.application_id = applications.id AND `+wasSent+`)`),
			// What an hour counted of messages that are removed or delivered again since is more than its rows show.
			tx.exec(`INSERT INTO stats (hour, application_id, accepted, sent, dead)
				SELECT hour, application_id, sum(accepted), sum(sent), sum(dead) FROM (
					SELECT accepted_at / 3600000 AS hour, application_id, 1 AS accepted, 0 AS sent, 0 AS dead FROM messages
					UNION ALL
					SELECT o.final_at / 3600000, m.application_id, 0, CASE WHEN `+wasSent+` THEN 1 ELSE 0 END, CASE WHEN o.state = 'dead' THEN 1 ELSE 0 END
					FROM messages m JOIN outbox o ON o.id = m.id
				) AS n WHERE hour >= ? GROUP BY hour, application_id
				ON CONFLICT (hour, application_id) DO UPDATE SET
					accepted = CASE WHEN excluded.accepted > stats.accepted THEN excluded.accepted ELSE stats.accepted END,
					sent = CASE WHEN excluded.sent > stats.sent THEN excluded.sent ELSE stats.sent END,
					dead = CASE WHEN excluded.dead > stats.dead THEN excluded.dead ELSE stats.dead END`, since),
		)
	})
}

// Totals are what happened to an application's messages since it was made.
type Totals struct {
	ID                             int64
	Accepted, Sent, Dead, LastUsed int64
}

// Totals returns what happened so far, by application.
func (s *Store) Totals(ctx context.Context) (map[int64]Totals, error) {
	if err := s.tally(ctx); err != nil {
		return nil, err
	}
	var all []Totals
	if err := s.rows.WithContext(ctx).Model(&Application{}).Find(&all).Error; err != nil {
		return nil, err
	}
	byID := make(map[int64]Totals, len(all))
	for _, t := range all {
		byID[t.ID] = t
	}
	return byID, nil
}

// Hours returns what happened since an hour, for one owner's applications or for all (0).
func (s *Store) Hours(ctx context.Context, owner, since int64) ([]Stat, error) {
	if err := s.tally(ctx); err != nil {
		return nil, err
	}
	var stats []Stat
	q := s.rows.WithContext(ctx).Select("hour, sum(accepted) AS accepted, sum(sent) AS sent, sum(dead) AS dead").Where("hour >= ?", since)
	if owner != 0 {
		q = q.Where("application_id IN (SELECT id FROM applications WHERE owner_id = ?)", owner)
	}
	return stats, q.Group("hour").Order("hour").Find(&stats).Error
}

// tally has the counts so far written. A database that cannot be written still shows the older ones.
func (s *Store) tally(ctx context.Context) error {
	if s.d.numbered { // which has them
		return nil
	}
	err := s.w.do(ctx, &request{kind: tally})
	if errors.Is(err, ErrClosed) || ctx.Err() != nil {
		return err
	}
	return nil
}
