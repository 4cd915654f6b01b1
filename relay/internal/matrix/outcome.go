package matrix

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Class says what a failed attempt asks of the caller. The set is closed.
type Class string

// The classes of failed attempts.
const (
	ClassRetry     Class = "retry"     // this request failed: network, timeout, 500. Try again with backoff
	ClassAway      Class = "away"      // the homeserver is away or not one (refused, DNS, TLS, 502-504, HTML, M_UNRECOGNIZED): pause everything
	ClassWait      Class = "wait"      // 429: wait RetryAfter exactly, no attempt counted
	ClassRelogin   Class = "relogin"   // the session is over and being renewed: pause everything, no attempt counted
	ClassLocked    Class = "locked"    // account locked or deactivated, password refused: pause everything until a person acts
	ClassJoin      Class = "join"      // not in the room: join once, then continue, else block the room
	ClassBlock     Class = "block"     // the room refuses (forbidden, unknown room): block the room with its reason
	ClassEncrypted Class = "encrypted" // the room is encrypted: encrypt the event, or block the room if the bot cannot
	ClassTooLarge  Class = "too_large" // render smaller once, then dead
	ClassDead      Class = "dead"      // this event will never be taken (M_BAD_JSON …)
	ClassReconcile Class = "reconcile" // nothing was sent, as the device or the room is another now: find out whether an earlier attempt arrived first
)

// ErrNoLogin is the cause of a failure before the first login has succeeded or failed.
var ErrNoLogin = errors.New("the first login is under way")

// Reasons that are found by an attempt and by a look at a room.
const (
	NotInRoom   = "The bot is not in the room: invite it."
	MayNotWrite = "The bot may not write in the room: give it the power level for messages."
)

// SendError is a classified failure of a request.
type SendError struct {
	Class      Class
	RetryAfter time.Duration // for ClassWait; for ClassReconcile at least
	Status     int           // HTTP status, 0 if there was none
	Code       string        // Matrix errcode, "" if there was none
	Reason     string        // a sentence for people: why it failed, no secrets
	Alone      bool          // with ClassRetry: the homeserver answers otherwise, so only this room waits
	Encrypt    bool          // with ClassEncrypted: the room was not known to be encrypted, so try again with [Client.Prepare]
	Replaced   *Replaced     // with ClassReconcile: the room was upgraded and the bot is in the new one
	Err        error
}

// Error returns the reason with what the homeserver answered.
func (e *SendError) Error() string {
	s := e.Reason
	if s == "" {
		s = string(e.Class)
	}
	if e.Status != 0 || e.Err != nil {
		s = strings.TrimSuffix(s, ".")
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

// Sentence is what is shown to people of a failure.
func (e *SendError) Sentence() string {
	if s := strings.TrimSpace(e.Reason); s != "" {
		return s
	}
	return "The homeserver answered: " + string(e.Class) + "."
}
