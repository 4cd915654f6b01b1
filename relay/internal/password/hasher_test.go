package password

import (
	"testing"

	"slipway/relay/internal/refusal"
)

// Logins that would wait for too many others are turned away.
func TestVerify_TooManyAtOnce_IsUnavailable(t *testing.T) {
	h := NewHasher()
	defer h.rest.Stop()
	h.waiting.Store(argonWaiting)
	if _, err := h.Verify(t.Context(), "password", Unusable()); refusal.KindOf(err) != refusal.KindUnavailable {
		t.Errorf("refused with %v", err)
	}
	h.waiting.Store(0)
	if ok, err := h.Verify(t.Context(), "password", Unusable()); ok || err != nil {
		t.Errorf("an unusable hash: %v, %v", ok, err)
	}
	hash, err := h.Hash(t.Context(), "password")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := h.Verify(t.Context(), "password", hash); !ok || err != nil {
		t.Errorf("its own hash: %v, %v", ok, err)
	}
}
