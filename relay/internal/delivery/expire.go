package delivery

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// Expire gives up entries older than MaxAge, even where no attempts are made: in blocked rooms, and in all rooms while
// sending is paused.
func (d *Delivery) Expire(ctx context.Context) error {
	now := time.Now()
	cutoff := now.Add(-d.o.MaxAge).UnixMilli()
	rooms, err := d.store.OldRooms(ctx, cutoff)
	if err != nil {
		return err
	}
	for _, id := range rooms {
		q, err := d.queue(id)
		if err != nil {
			return err
		}
		last := q.Room().Blocked
		if last == "" {
			last, _ = d.pause.State()
		}
		if last == "" {
			last = q.why()
		}
		reason := tooOld(d.o.MaxAge, last)
		entries, dead, err := d.store.Expire(ctx, id, cutoff, now.UnixMilli(), reason)
		if err != nil {
			return err
		}
		d.metrics.dead.WithLabelValues("age").Add(float64(dead))
		d.log.Warn("gave up entries that are older than delivery.maxage", zap.Int64("room", id), zap.Int64("entries", entries), zap.String("reason", reason))
	}
	return nil
}
