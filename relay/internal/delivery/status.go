package delivery

import (
	"context"
	"time"

	"slipway/relay/internal/store"
)

// Status is the relay's present condition in a few numbers.
type Status struct {
	Waiting    int64         // messages on their way
	OldestAge  time.Duration // since the oldest of them was accepted
	Paused     string        // why nothing is sent at all, "" if nothing is wrong
	PausedAt   time.Time
	Degraded   string // why nothing is heard of the homeserver though sending is tried, "" if nothing is wrong
	Parked     int    // rooms that are blocked
	Ambiguous  int64
	Dead       int64
	DatabaseOK bool
}

// Status tells the relay's present condition.
func (d *Delivery) Status(ctx context.Context) Status {
	st := Status{DatabaseOK: true}
	st.Paused, st.PausedAt = d.pause.state()
	st.Degraded = d.pause.doubtful()
	var err error
	if st.Ambiguous, st.Dead, err = d.store.Troubled(ctx); err != nil {
		st.DatabaseOK = false
	}
	if blocked, err := d.store.ParkedRooms(ctx); err == nil {
		st.Parked = int(blocked)
	}
	st.Waiting, st.OldestAge = d.waiting(ctx)
	return st
}

// waiting returns how much is on its way, and how old the oldest of it is.
func (d *Delivery) waiting(ctx context.Context) (n int64, age time.Duration) {
	backlogs, err := d.store.Backlogs(ctx)
	if err != nil {
		return 0, 0
	}
	for _, b := range backlogs {
		n += b.Waiting
		age = max(age, time.Since(store.Time(b.Oldest)))
	}
	return n, age
}

// Paused returns why nothing is sent at all, "" if nothing is wrong.
func (d *Delivery) Paused() string {
	reason, _ := d.pause.state()
	return reason
}
