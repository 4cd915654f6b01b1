package delivery

import (
	"context"
	"fmt"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
	"slipway/shared/plural"
)

// Status is the relay's present condition in a few numbers.
type Status struct {
	Condition
	Waiting    int64         // messages on their way and what follows them, such as edits
	OldestAge  time.Duration // since the oldest of those that come next in their rooms was queued; delayed ones don't count
	Blocked    int           // rooms that are blocked
	Ambiguous  int64
	Dead       int64
	DatabaseOK bool

	Deliverer string    // which relay delivers; "" where there is only one, or none at this moment
	Since     time.Time // since when
	Elsewhere bool      // it is not this one
}

// RateLimited reports, as a sentence, how many messages wait for the homeserver's rate limit and for how long; "" if none do.
func (s Status) RateLimited() string {
	if s.Interval == 0 || s.Waiting == 0 {
		return ""
	}
	wait := time.Duration(s.Waiting) * s.Interval
	return fmt.Sprintf("Waiting for the homeserver's rate limit: %s, about %d s.", plural.Of(s.Waiting, "message"), int64(wait.Seconds()+1))
}

// statusWithin is how long a database may take for all that is in a status.
const statusWithin = 3 * time.Second

// StatusOf returns what the database has of the status.
func StatusOf(ctx context.Context, s *store.Store) (st Status) {
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	var err error
	st.Ambiguous, st.Dead, err = s.Troubled(ctx)
	st.DatabaseOK = err == nil
	if blocked, err := s.BlockedRooms(ctx); err == nil {
		st.Blocked = int(blocked)
	}
	st.Waiting, st.OldestAge = waiting(ctx, s)
	return st
}

// Condition is what the delivering relay knows of the homeserver, and publishes to the others.
type Condition struct {
	Paused   string        `json:"paused,omitempty"` // why nothing is sent at all, "" if nothing is wrong
	PausedAt time.Time     `json:"paused_at,omitzero"`
	Degraded string        `json:"degraded,omitempty"` // why nothing is heard of the homeserver though sending is tried, "" if nothing is wrong
	Interval time.Duration `json:"interval,omitempty"` // between messages, by the homeserver's rate limit; 0 if it doesn't limit the bot now
}

// Condition returns the present condition.
func (d *Delivery) Condition() Condition {
	reason, since := d.pause.State()
	return Condition{Paused: reason, PausedAt: since, Degraded: d.pause.Doubtful(), Interval: d.rate.Interval()}
}

// waiting returns how much is on its way, and how old the oldest of it is.
func waiting(ctx context.Context, s *store.Store) (n int64, age time.Duration) {
	n, err := s.Waiting(ctx)
	if err != nil || n == 0 {
		return 0, 0
	}
	if oldest, err := s.Oldest(ctx); err == nil && oldest > 0 {
		age = time.Since(post.Time(oldest))
	}
	return n, age
}
