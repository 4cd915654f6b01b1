package relay_test

import (
	"strings"
	"testing"

	"slipway/relay/internal/format"
	"slipway/relay/internal/message"
	"slipway/relay/internal/relay"
	"slipway/relay/internal/relaytest"
)

// A short body that uses a long link many times is many events.
func TestShape_LinkDefinition_IsRendered(t *testing.T) {
	r := relaytest.NewRig(t)
	body := strings.Repeat("[a] ", 700) + "\n\n[a]: https://example.org/" + strings.Repeat("x", 3000) + "\n"
	want := format.Events(format.Message{Body: body}, r.Options.Format)
	events, file := r.Shape(message.Message{Body: body})
	if len(want) == 1 && !want[0].Truncated {
		t.Fatal("the message is one event")
	}
	if events != len(want) || file != want[len(want)-1].Truncated {
		t.Errorf("%d events, file %v; want %d", events, file, len(want))
	}
}

// The answer to a message that was accepted doesn't fail because its parser panics.
func TestShape_ParserPanics_IsUnknown(t *testing.T) {
	defer relay.ReplaceRender(func(format.Message, format.Options) []format.Event { panic("parser") })()
	r := relaytest.NewRig(t)
	if events, file := r.Shape(message.Message{Body: strings.Repeat("x", 10_000)}); events != 0 || file {
		t.Errorf("%d events, file %v", events, file)
	}
}
