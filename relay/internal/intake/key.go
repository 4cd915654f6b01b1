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
	content.Priority = 0 // the application's default may change
	return &store.Key{Key: r.IdempotencyKey, Hash: digest(content, r.Attachments, r.Priority, r.Change, e.Thread, e.Key, r.Edits)}
}

// digest returns a hash of a content, its attachments and more. Each upload of a file gives the same. The hashes are stored: if that of
// an old request changes, its repetitions get 409 after an upgrade, and every open alert counts as changed.
func digest(content outbox.Content, attachments []outbox.Attachment, more ...any) []byte {
	content.Attachments = ""
	parts := append([]any{content}, more...)
	for _, a := range attachments {
		parts = append(parts, a.Name, a.Sum)
	}
	text, _ := json.Marshal(parts) // strings and numbers always encode
	hash := sha256.Sum256(text)
	return hash[:]
}
