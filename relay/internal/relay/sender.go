package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
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
	// Create makes an unencrypted private room of the bot's own and invites the users named.
	Create(ctx context.Context, room NewRoom) (roomID string, err error)
	// Invite invites a user who is neither in the room nor invited.
	Invite(ctx context.Context, roomID, user string) error
	// KeyOf returns the key that a room was created with, "" for one without.
	KeyOf(ctx context.Context, roomID string) (key string, err error)
	// Info tells what the bot knows about a room it may be in.
	Info(ctx context.Context, roomID string) (RoomInfo, error)
	// Joined lists the ids of the rooms that the bot is in.
	Joined(ctx context.Context) ([]string, error)
}

// Outgoing is one event on its way.
type Outgoing struct {
	RoomID    string
	TxnID     string // stored before the first attempt, the same for each attempt
	Device    string // the device of the earlier attempts, or the one in use
	EventType string // e.g. m.room.message
	Content   json.RawMessage
	Encrypted bool // the room was once seen encrypted; it must never get plaintext again
}

// Redaction is one removal on its way.
type Redaction struct {
	RoomID, EventID, TxnID, Device, Reason string
}

// Found is the answer of [Sender.Find].
type Found struct {
	EventID  string // "" if no such event was seen
	Complete bool   // the history was read back to the time asked for, so "not seen" proves "not sent"
}

// NewRoom says what room to create for an application.
type NewRoom struct {
	Key    string // names the room, for [Rooms.KeyOf]; not shown to anybody
	Name   string
	Topic  string
	Invite []string // Matrix ids
}

// RoomInfo is what the homeserver tells about a room.
type RoomInfo struct {
	RoomID    string
	Name      string
	Alias     string
	Joined    bool
	Invited   bool
	Encrypted bool
	Writable  bool   // the bot's power level suffices for m.room.message
	ReplaceBy string // the room that took its place, if it was upgraded
}

// Class says what a failed attempt asks of the worker. The set is closed.
type Class string

// The classes of failed attempts.
const (
	ClassRetry     Class = "retry"     // this request failed: network, timeout, 500. Try again with backoff
	ClassAway      Class = "away"      // the homeserver is away or not one (refused, DNS, TLS, 502-504, HTML, M_UNRECOGNIZED): pause everything
	ClassWait      Class = "wait"      // 429: wait RetryAfter exactly, no attempt counted
	ClassRelogin   Class = "relogin"   // the session is over and being renewed: pause everything, no attempt counted
	ClassLocked    Class = "locked"    // account locked or deactivated, password refused: pause everything until a person acts
	ClassJoin      Class = "join"      // not in the room: join once, then go on, else park
	ClassPark      Class = "park"      // the room refuses (forbidden, unknown room): park the room with its reason
	ClassEncrypted Class = "encrypted" // the room is encrypted and this relay would send plaintext: park it
	ClassTooLarge  Class = "too_large" // render smaller once, then dead
	ClassDead      Class = "dead"      // this event will never be taken (M_BAD_JSON …)
	ClassSettle    Class = "settle"    // nothing was sent, as the device or the room is another now: find out whether an earlier attempt arrived first
)

// ErrNoLogin is the cause of a failure before the first login has succeeded or failed.
var ErrNoLogin = errors.New("the first login is under way")

// SendError is a classified failure of an attempt.
type SendError struct {
	Class      Class
	RetryAfter time.Duration // for ClassWait; for ClassSettle at least
	Status     int           // HTTP status, 0 if there was none
	Code       string        // Matrix errcode, "" if there was none
	Reason     string        // a sentence for people: why it is stuck, no secrets
	Alone      bool          // with ClassRetry: the homeserver answers otherwise, so only this room waits
	Err        error
}

// Error returns the reason with what the homeserver answered.
func (e *SendError) Error() string {
	s := e.Reason
	if s == "" {
		s = string(e.Class)
	}
	if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP %d %s)", e.Status, e.Code)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *SendError) Unwrap() error { return e.Err }
