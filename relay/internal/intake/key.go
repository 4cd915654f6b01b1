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
	content.Priority = 0                                                                    // the application's default may change
	text, _ := json.Marshal([]any{content, r.Priority, r.Change, e.Thread, e.Key, r.Edits}) // strings and numbers always encode
	hash := sha256.Sum256(text)
	return &store.Key{Key: r.IdempotencyKey, Hash: hash[:]}
}
