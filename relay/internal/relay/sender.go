package relay

import (
	"context"
	"time"

	"slipway/relay/internal/matrix"
)

// Sender puts events into Matrix rooms. It classifies every failure as a [*SendError] and never retries on its
// own: the schedule is the worker's.
type Sender interface {
	// Send puts one event with out.TxnID as the transaction id and returns the event's id. It answers ClassSettle,
	// without sending, when the device in use is not out.Device: the homeserver tells repeats of a transaction
	// apart by device only.
	Send(ctx context.Context, out Outgoing) (eventID string, err error)
	// Redact removes an event that was sent earlier, under out.TxnID. Errors as in Send.
	Redact(ctx context.Context, out Redaction) (eventID string, err error)
	// Device names the device that Send uses now; "" before the first login.
	Device() string
	// Probe asks the homeserver for a sign of life and for the session's validity. nil means: go on sending.
	Probe(ctx context.Context) error
	// Find looks in the room's history for the event of ours whose content carries marker, back to since.
	Find(ctx context.Context, roomID, marker string, since time.Time) (Found, error)
	// Upload stores a text as a file on the homeserver and returns its mxc: URI.
	Upload(ctx context.Context, name, mimeType string, data []byte) (uri string, err error)
}

// Rooms is the part of the Matrix side that looks after rooms. Failures are [*SendError]s too.
type Rooms interface {
	// Resolve returns the room id for an address: an id is returned as it is, an alias is looked up.
	Resolve(ctx context.Context, address string) (roomID string, err error)
	// Join accepts a standing invitation or joins a public room.
	Join(ctx context.Context, roomID string) error
	// Create makes an unencrypted private room of the bot's own and invites the users named. Repeated with the same
	// key it returns the same room.
	Create(ctx context.Context, room NewRoom) (roomID string, err error)
	// Info tells what the bot knows about a room it may be in.
	Info(ctx context.Context, roomID string) (RoomInfo, error)
	// Joined lists the ids of the rooms that the bot is in.
	Joined(ctx context.Context) ([]string, error)
}

// Outgoing is one event on its way.
type Outgoing = matrix.Outgoing

// Redaction is one removal on its way.
type Redaction = matrix.Redaction

// Found is the answer of [Sender.Find].
type Found = matrix.Found

// NewRoom says what room to create.
type NewRoom = matrix.NewRoom

// RoomInfo is what the homeserver tells about a room.
type RoomInfo = matrix.RoomInfo

// Class says what a failed attempt asks of the worker.
type Class = matrix.Class

// SendError is a classified failure of an attempt.
type SendError = matrix.SendError

// The classes of failed attempts.
const (
	ClassRetry     = matrix.ClassRetry
	ClassAway      = matrix.ClassAway
	ClassWait      = matrix.ClassWait
	ClassRelogin   = matrix.ClassRelogin
	ClassLocked    = matrix.ClassLocked
	ClassJoin      = matrix.ClassJoin
	ClassPark      = matrix.ClassPark
	ClassEncrypted = matrix.ClassEncrypted
	ClassTooLarge  = matrix.ClassTooLarge
	ClassDead      = matrix.ClassDead
	ClassSettle    = matrix.ClassSettle
)

// ErrNoLogin is the cause of a failure before the first login has succeeded or failed.
var ErrNoLogin = matrix.ErrNoLogin
