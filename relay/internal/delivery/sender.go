package delivery

import (
	"context"
	"time"

	"slipway/relay/internal/matrix"
)

// Sender puts events into Matrix rooms. It classifies every failure as a [*matrix.SendError] and never retries on its
// own: the schedule is the worker's.
type Sender interface {
	// Send puts one event with out.TxnID as the transaction id and returns the event's id. It answers ClassReconcile,
	// without sending, when the device in use is not out.Device: the homeserver tells repeats of a transaction
	// apart by device only.
	Send(ctx context.Context, out matrix.Outgoing) (eventID string, err error)
	// Redact removes an event that was sent earlier, under out.TxnID. Errors as in Send.
	Redact(ctx context.Context, out matrix.Redaction) (eventID string, err error)
	// Device names the device that Send uses now; "" before the first login.
	Device() string
	// Probe asks whether the homeserver responds and the session is valid. nil means: keep sending.
	Probe(ctx context.Context) error
	// Find looks in the room's history for the event of ours whose content carries marker, back to since.
	Find(ctx context.Context, roomID, marker string, since time.Time) (matrix.Found, error)
	// Upload stores a file on the homeserver. If it is not to be encrypted, it returns the error that Send would return for an event
	// in the clear.
	Upload(ctx context.Context, up matrix.Upload) (matrix.Media, error)
}

// Encrypter encrypts events for encrypted rooms. Failures are [*matrix.SendError]s too.
type Encrypter interface {
	// Prepare encrypts an event. What it returns is stored before Send gets it, so that the same bytes are sent again.
	Prepare(ctx context.Context, out matrix.Outgoing) (matrix.Outgoing, error)
}

// Rooms is the part of the Matrix side that manages rooms. Failures are [*matrix.SendError]s too.
type Rooms interface {
	// Resolve returns the room id for an address: an id is returned as it is, an alias is looked up.
	Resolve(ctx context.Context, address string) (roomID string, err error)
	// Join accepts a standing invitation or joins a public room.
	Join(ctx context.Context, roomID string) error
	// Create makes a private room of the bot's own and invites the users named. Repeated with the same
	// key it returns the same room.
	Create(ctx context.Context, room matrix.NewRoom) (roomID string, err error)
	// Info returns the bot's knowledge of a room it may be in.
	Info(ctx context.Context, roomID string) (matrix.RoomInfo, error)
	// Standing returns how a user stands in a room that the bot is in.
	Standing(ctx context.Context, roomID, user string) (matrix.Standing, error)
	// JoinedRooms lists the rooms that the bot is in, with their names, in one request.
	JoinedRooms(ctx context.Context) ([]matrix.RoomInfo, error)
}

// RoomInfo is what the homeserver tells about a room.
type RoomInfo = matrix.RoomInfo
