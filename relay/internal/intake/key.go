package intake

import (
	"crypto/sha256"
	"encoding/json"

	"slipway/relay/internal/outbox"
	"slipway/relay/internal/store"
)

// keyOf returns the idempotency key with the hash of what it stands for; nil without a key.
func keyOf(r Request, e *outbox.Entry) *store.Key {
	if r.IdempotencyKey == "" {
		return nil
	}
	content := e.Content
	content.Priority, content.Attachments = 0, "" // the application's default may change, and each upload has another id
	parts := []any{content, r.Priority, r.Change, e.Thread, e.Key, r.Edits}
	for _, a := range r.Attachments {
		parts = append(parts, a.Name, a.Sum)
	}
	text, _ := json.Marshal(parts) // strings and numbers always encode
	hash := sha256.Sum256(text)
	return &store.Key{Key: r.IdempotencyKey, Hash: hash[:]}
}
