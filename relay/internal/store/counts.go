package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"slipway/relay/internal/post"
)

// counts are what happened to messages in a commit, which stores them as well.
type counts map[Stat]*count // by hour and application, the other fields of Stat are 0

type count struct{ accepted, sent, dead, lastUsed int64 }

func (c counts) at(application, millis int64) *count {
	k := Stat{Hour: millis / time.Hour.Milliseconds(), ApplicationID: application}
	if c[k] == nil {
		c[k] = &count{}
	}
	return c[k]
}

// counts returns what happened to messages in the batch.
func (b *batch) counts() counts {
	c := counts{}
	for _, p := range b.parts {
		for _, a := range p.incoming {
			if a.stored() && a.Entry.Kind == post.KindMessage {
				c.at(a.Entry.ApplicationID, a.Entry.AcceptedAt).accepted++
			}
			if at := a.cameAt(); at != 0 && a.Entry.Source != post.SourceRelay { // be it news or not
				n := c.at(a.Entry.ApplicationID, at)
				n.lastUsed = max(n.lastUsed, at)
			}
		}
	}
	for _, tx := range b.txs {
		for k, n := range tx.counts {
			if c[k] == nil {
				c[k] = &count{}
			}
			c[k].sent, c[k].dead = c[k].sent+n.sent, c[k].dead+n.dead
		}
	}
	return c
}

// count counts a message that became sent or dead, if the effects of that ask for it.
func (tx *Tx) count(e *post.Entry, effects []post.Effect, at int64) {
	if !slices.Contains(effects, post.Effect(post.Count{})) {
		return
	}
	switch {
	case e.State.Delivered():
		tx.counts.at(e.ApplicationID, at).sent++
	case e.State.Dead():
		tx.counts.at(e.ApplicationID, at).dead++
	}
}

var (
	statsText = many{
		before: `INSERT INTO stats (hour, application_id, accepted, sent, dead) VALUES `, row: placeholders(5),
		after: ` ON CONFLICT (hour, application_id) DO UPDATE
		SET accepted = stats.accepted + excluded.accepted, sent = stats.sent + excluded.sent, dead = stats.dead + excluded.dead`,
	}
	totalsText = many{
		before: `UPDATE applications SET accepted = accepted + n.column2, sent = sent + n.column3, dead = dead + n.column4,
		last_used = CASE WHEN n.column5 > 0 THEN n.column5 ELSE last_used END FROM (VALUES `, row: slices.Repeat([]string{`CAST(? AS BIGINT)`}, 5),
		after: `) AS n WHERE applications.id = n.column1`,
	}
)

// storeCounts adds what happened to messages to their hours and to the applications' totals. The applications are locked in order, so
// that relays don't wait for each other.
func (s *statements) storeCounts(ctx context.Context, c counts) error {
	var hours, totals [][]any
	var ids []int64
	byID := map[int64]count{}
	for _, k := range c.keys() {
		n := c[k]
		hours = append(hours, []any{k.Hour, k.ApplicationID, n.accepted, n.sent, n.dead})
		t, known := byID[k.ApplicationID]
		if !known {
			ids = append(ids, k.ApplicationID)
		}
		byID[k.ApplicationID] = count{t.accepted + n.accepted, t.sent + n.sent, t.dead + n.dead, max(t.lastUsed, n.lastUsed)}
	}
	for _, id := range ids {
		n := byID[id]
		totals = append(totals, []any{id, n.accepted, n.sent, n.dead, n.lastUsed})
	}
	if err := s.d.lock(ctx, s.conn, "applications", ids); err != nil {
		return err
	}
	return errors.Join(s.query(ctx, s.stats, hours, nil), s.query(ctx, s.totals, totals, nil))
}

// keys are the hours and applications that something happened in, in order.
func (c counts) keys() []Stat {
	return slices.SortedFunc(maps.Keys(c), func(a, b Stat) int {
		return cmp.Or(cmp.Compare(a.ApplicationID, b.ApplicationID), cmp.Compare(a.Hour, b.Hour))
	})
}

// Hours returns what happened since an hour, for one owner's applications or for all (0).
func (s *Store) Hours(ctx context.Context, owner, since int64) ([]Stat, error) {
	var stats []Stat
	q := s.rows.WithContext(ctx).Select("hour, sum(accepted) AS accepted, sum(sent) AS sent, sum(dead) AS dead").Where("hour >= ?", since)
	if owner != 0 {
		q = q.Where("application_id IN (SELECT id FROM applications WHERE owner_id = ?)", owner)
	}
	return stats, q.Group("hour").Order("hour").Find(&stats).Error
}
