package relay

import "time"

// Status is the relay's present condition in a few numbers.
type Status struct {
	Waiting    int64         // messages on their way
	OldestAge  time.Duration // since the oldest of them was accepted
	Paused     string        // why nothing is sent at all, "" if nothing is wrong
	PausedAt   time.Time
	Degraded   string // why nothing is heard of the homeserver though sending is tried, "" if nothing is wrong
	Parked     int    // rooms that are parked
	Ambiguous  int64
	Dead       int64
	DatabaseOK bool
}

// Hour counts what happened within one hour.
type Hour struct {
	Start    time.Time
	Accepted int64
	Sent     int64
	Dead     int64
}
