//go:build goolm

package encryption

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"slipway/relay/internal/format"
)

// TestEncrypt_Size: the largest content that format renders fits into an event once it is encrypted, whatever it consists of.
func TestEncrypt_Size(t *testing.T) {
	const (
		maxEvent = 64 << 10
		around   = 3 << 10 // references, hashes, and signatures, which the homeserver adds
	)
	_, d := newPair(t)
	members := func(context.Context) ([]id.UserID, error) { return []id.UserID{bot, owner}, nil }
	room := Room{ID: testRoom, Rules: &event.EncryptionEventContent{Algorithm: id.AlgorithmMegolmV1}, Members: members}
	for name, body := range map[string]string{
		"letters": strings.Repeat("a", format.DefaultBudget), "markup": strings.Repeat("<tr><td>", format.DefaultBudget/8),
		"ampersands": strings.Repeat("&", format.DefaultBudget), "quotes": strings.Repeat(`"`, format.DefaultBudget/2), "emoji": strings.Repeat("🦀", format.DefaultBudget/4),
	} {
		e := format.Render(format.Message{Body: body, ContentType: format.Plain, Marker: "m"}, format.Options{})
		wire, err := d.Encrypt(t.Context(), room, "m.room.message", e.Content, format.MarkerField("m"))
		if err != nil || len(wire) > maxEvent-around {
			t.Errorf("%s: %d bytes of %d, %v", name, len(wire), len(e.Content), err)
		}
	}
}

// TestEncrypt_Relation: a relation stays readable, because homeservers use it.
func TestEncrypt_Relation(t *testing.T) {
	_, d := newPair(t)
	members := func(context.Context) ([]id.UserID, error) { return []id.UserID{bot, owner}, nil }
	room := Room{ID: testRoom, Rules: &event.EncryptionEventContent{Algorithm: id.AlgorithmMegolmV1}, Members: members}
	wire, err := d.Encrypt(t.Context(), room, "m.room.message", json.RawMessage(`{"body":"x","m.relates_to":{"rel_type":"m.replace","event_id":"$e"}}`), "")
	if err != nil || !strings.Contains(string(wire), `"m.relates_to":{"rel_type":"m.replace","event_id":"$e"}`) {
		t.Errorf("encrypted is %s, %v", wire, err)
	}
}
