package matrix

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Class is the reaction that a failure calls for. The set is closed.
type Class string

// Classes of failures.
const (
	ClassRetry     Class = "retry"     // this request failed: network, timeout, 500. Try again with backoff
	ClassAway      Class = "away"      // the homeserver is away or not one (refused, DNS, TLS, 502-504, HTML, M_UNRECOGNIZED): pause everything
	ClassWait      Class = "wait"      // 429: wait RetryAfter exactly, no attempt counted
	ClassRelogin   Class = "relogin"   // the session is over and being renewed: pause everything, no attempt counted
	ClassLocked    Class = "locked"    // account locked or deactivated, password refused: pause everything until a person acts
	ClassJoin      Class = "join"      // not in the room: join once, then continue, else block the room
	ClassBlock     Class = "block"     // the room refuses (forbidden, unknown room): block the room with its reason
	ClassEncrypted Class = "encrypted" // the room is encrypted: encrypt the event, or block the room if the bot cannot
	ClassTooLarge  Class = "too_large" // render once more with the least text, then dead
	ClassDead      Class = "dead"      // the event is permanently refused (M_BAD_JSON …)
	ClassReconcile Class = "reconcile" // nothing was sent, because the device or the room changed: find out first whether an earlier attempt arrived
)

// ErrNoLogin is the cause of failures until the first login ends.
var ErrNoLogin = errors.New("the first login is under way")

// Reasons that both a failed attempt and a state read find.
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
	Answer     string        // the homeserver's own sentence, "" if there was none
	Reason     string        // a sentence for people: why it failed, no secrets
	Setting    string        // with ClassLocked: the key of the configuration to set; "" for the account's name and password
	Alone      bool          // with ClassRetry: the homeserver answers otherwise, so only this room waits
	Encrypt    bool          // with ClassEncrypted: the room was not known to be encrypted, so try again with [Client.Prepare]
	Replaced   *Replaced     // with ClassReconcile: the room was upgraded and the bot is in the new one
	Err        error
}

// Error returns the reason with the homeserver's answer.
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

// Sentence returns the failure as a sentence for people.
func (e *SendError) Sentence() string {
	if s := strings.TrimSpace(e.Reason); s != "" {
		return s
	}
	return "The homeserver answered: " + string(e.Class) + "."
}

// Remedy returns what a person must do about a failure of [ClassLocked], as a sentence. It is "" for other classes.
func (e *SendError) Remedy() string {
	switch {
	case e.Class != ClassLocked:
		return ""
	case e.Setting != "":
		return "Set " + e.Setting + " to a valid one and start the relay again."
	}
	return "Correct matrix.username and matrix.password, or the account, and start the relay again."
}

// hasClass reports whether err is a failure of one of the classes.
func hasClass(err error, classes ...Class) bool {
	var failed *SendError
	return errors.As(err, &failed) && slices.Contains(classes, failed.Class)
}

// hasCode reports whether err is a failure with a Matrix error code.
func hasCode(err error, code string) bool {
	var failed *SendError
	return errors.As(err, &failed) && failed.Code == code
}

// reclassify returns a copy of a failure with another class and reason. It returns any other error unchanged.
func reclassify(err error, class Class, reason string) error {
	var failed *SendError
	if !errors.As(err, &failed) {
		return err
	}
	changed := *failed
	changed.Class, changed.Reason = class, reason
	return &changed
}

// withReason returns a copy of a failure with another reason. It returns any other error unchanged.
func withReason(err error, reason string) error {
	var failed *SendError
	if !errors.As(err, &failed) {
		return err
	}
	return reclassify(err, failed.Class, reason)
}

// reasonOf returns the sentence of a failure, or the text of any other error.
func reasonOf(err error) string {
	var failed *SendError
	if errors.As(err, &failed) {
		return failed.Sentence()
	}
	return err.Error()
}
