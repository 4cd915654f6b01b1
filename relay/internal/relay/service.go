package relay

import (
	"time"

	"go.uber.org/zap"
)

// Options are what a [Service] is made of.
type Options struct {
	Path      string // of the database file
	Sender    Sender
	Rooms     Rooms
	Renderer  Renderer
	Log       *zap.Logger
	Metrics   *Metrics
	Limits    Limits
	Delivery  Delivery
	Retention time.Duration // how long messages at rest are kept; 0 means for ever
	Admin     Admin
	// CheckToken as security.checktoken: when false, white space around a token is forgiven and a regenerated
	// token's predecessor stays valid for a day even without a grace period. The check itself is never skipped.
	CheckToken bool
}

// Admin is the administrator from the configuration. It is created or brought up to date at each start.
type Admin struct {
	Name, Password, MatrixID string
}

// Limits bound what is taken in.
type Limits struct {
	MaxMessage    int // bytes of a message's body; 0 means 1 MiB
	MaxTitle      int // bytes; 0 means 1 KiB
	RatePerMinute int // messages of one application; 0 means no limit
	Burst         int // messages at once within that rate; 0 means RatePerMinute
	MaxWaiting    int64
}

// Delivery says how patient the worker is.
type Delivery struct {
	Parallel int           // rooms sent to at the same time; 0 means 64
	MaxAge   time.Duration // give up on a message after that; 0 means 72 h
}
