package intake

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"slipway/relay/internal/account"
	"slipway/relay/internal/alert"
	"slipway/relay/internal/outbox"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// reportOf returns what a request says of an alert, nil if it is about none.
func reportOf(r Request, e *outbox.Entry) *alert.Report {
	if r.Change == Create {
		return nil
	}
	text, _ := json.Marshal([]any{e.Content, e.Resolves}) // strings and numbers always encode
	digest := sha256.Sum256(text)
	return &alert.Report{Resolves: e.Resolves, Began: store.Millis(r.Began), At: e.EventAt, Priority: e.Priority, Digest: digest[:]}
}

// roomOf returns the room of a message that its application is about to edit.
func (s *Intake) roomOf(ctx context.Context, app *account.App, id int64) (room int64, err error) {
	m, err := s.store.Message(ctx, id)
	switch {
	case err != nil && !store.IsMissing(err):
		return 0, refusal.Unreadable(err)
	case err != nil || m.ApplicationID != app.Row().ID:
		return 0, refusal.NotFound("message")
	case m.State == outbox.StateCancelled || m.State == outbox.StateRedacted || m.Removing:
		return 0, refusal.Conflict("", "The message is withdrawn.")
	}
	return m.RoomRow, nil
}
