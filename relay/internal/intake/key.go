package intake

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"slipway/relay/internal/message"
	"slipway/relay/internal/store"
)

// keyOf returns the idempotency key with the hash of what it stands for; nil without a key.
func keyOf(r Request, e *message.Entry) *store.Key {
	if r.IdempotencyKey == "" {
		return nil
	}
	priority := "default"
	if r.Priority != nil {
		priority = strconv.Itoa(*r.Priority)
	}
	h := sha256.New()
	for _, part := range []string{e.Title, e.Body, e.ContentType, e.Extras, priority} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return &store.Key{Key: r.IdempotencyKey, Hash: h.Sum(nil)}
}
