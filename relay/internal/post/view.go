package post

import "time"

// View is a message, or a follow-up, as people and readers see it.
type View struct {
	Entry
	ApplicationName string
	OwnerID         int64  // of the application
	Address         string // of the room: id or alias; "" while the relay is still to make it
	RoomID          string // resolved, "" if not yet
	Removing        bool   // the removal of its event from the room waits
}

// SentAt returns when a message reached its room; the zero time if it did not.
func (v View) SentAt() time.Time {
	if !v.State.Delivered() {
		return time.Time{}
	}
	return Time(v.FinalAt)
}

// Files returns the attachments.
func (c Content) Files() []Attachment { return DecodeAttachments(c.Attachments) }

// Time converts a stored time to UTC; 0 is the zero time.
func Time(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

// Millis converts a time for storage; the zero time is 0.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
