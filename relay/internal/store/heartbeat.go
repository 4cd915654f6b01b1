package store

import (
	"context"

	"slipway/relay/internal/post"
)

// Watched is an application that must send heartbeats, or whose alarm is still open. Times are Unix milliseconds.
type Watched struct {
	ID             int64
	Name           string
	LastUsed       int64
	Heartbeat      int64 // the longest time between two heartbeats
	HeartbeatGrace int64
	HeartbeatSince int64 // when the interval was set
	Alarm          int64 // the message of the open alarm; 0 for none
	Episode        int64 // of that alarm
}

// Watched returns the applications to watch. key is that of their alarms.
func (s *Store) Watched(ctx context.Context, key string) (all []Watched, err error) {
	err = s.rows.WithContext(ctx).Raw(`SELECT a.id, a.name, a.last_used, a.heartbeat, a.heartbeat_grace, a.heartbeat_since,
		coalesce(l.message_id, 0) AS alarm, coalesce(l.episode, 0) AS episode
		FROM applications a LEFT JOIN alerts l ON l.application_id = a.id AND l.key = ? AND l.closed_at = 0
			AND EXISTS (SELECT 1 FROM outbox o WHERE o.id = l.message_id AND o.source = ?)
		WHERE a.deleted_at = 0 AND (a.heartbeat > 0 OR l.message_id IS NOT NULL) ORDER BY a.id`, key, post.SourceRelay).Scan(&all).Error
	return all, err
}

// Beat records a heartbeat of an application, even one before the last: the clock may have been set back.
func (s *Store) Beat(ctx context.Context, application, at int64) error {
	return s.Update(ctx, func(tx *Tx) error {
		return tx.exec(`UPDATE applications SET last_used = ? WHERE id = ?`, at, application)
	})
}
