package main

import (
	"bytes"
	"strings"
	"testing"

	"slipway/relay/internal/synapsetest"
)

// Repeated at once, the command shows what has arrived meanwhile, and leaves no device behind.
func TestMessages_Repeated_ShowsWhatIsNew(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a homeserver; `make test` runs it")
	}
	ctx := t.Context()
	server, err := synapsetest.Start(ctx, synapsetest.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	sender, err := server.NewUser(ctx, "sender", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.CreateUser(ctx, "reader", "reader-password", false); err != nil {
		t.Fatal(err)
	}
	room, err := sender.CreateRoom(ctx, "hall", []string{"@reader:localhost"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second", "third"} {
		if _, err := sender.Send(ctx, room, "m.room.message", map[string]string{"msgtype": "m.text", "body": text}); err != nil {
			t.Fatal(err)
		}
		r := reader{base: server.URL}
		if err := r.login(ctx, "reader", "reader-password"); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := r.show(ctx, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is not shown:\n%s", text, out.String())
		}
	}
	again, err := server.Login(ctx, "reader", "reader-password")
	if err != nil {
		t.Fatal(err)
	}
	var left struct {
		Devices []struct {
			Name string `json:"display_name"`
		}
	}
	if err := server.Call(ctx, again.Token, "GET", "/_matrix/client/v3/devices", nil, &left); err != nil || len(left.Devices) == 0 {
		t.Fatalf("devices %v, %v", left, err)
	}
	for _, d := range left.Devices {
		if d.Name == deviceName {
			t.Error("a device of the command is left")
		}
	}
}
