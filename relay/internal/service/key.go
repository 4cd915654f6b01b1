package service

import (
	"crypto/sha256"
	"encoding/json"

	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
)

// keyOf returns the idempotency key with the hash of what it stands for; nil without a key.
func keyOf(r post.Draft, e *post.Entry) *store.Key {
	if r.IdempotencyKey == "" {
		return nil
	}
	content := e.Content
	content.Priority = 0 // the application's default may change
	return &store.Key{Key: r.IdempotencyKey, Hash: digest(content, r.Files, r.Priority, r.Change, e.Thread, e.Key, r.Edits)}
}

// digest hashes a content, its attachments and more. Attachments count by name and content, not by upload. Hashes are
// stored: if a change alters them, repeated requests get 409 after an upgrade and every open alert counts as changed.
func digest(content post.Content, attachments []post.Attachment, more ...any) []byte {
	content.Attachments = ""
	parts := append([]any{content}, more...)
	for _, a := range attachments {
		parts = append(parts, a.Name, a.Sum)
	}
	text, _ := json.Marshal(parts) // strings and numbers always encode
	hash := sha256.Sum256(text)
	return hash[:]
}
