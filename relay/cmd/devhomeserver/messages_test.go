//go:build goolm

package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"slipway/relay/internal/servertest"
)

// person is somebody whose messages the command shows.
type person struct {
	*testing.T
	login
}

// shows runs the command, holds what it shows against the texts, and returns it.
func (p person) shows(texts ...string) string {
	p.Helper()
	d, err := openDevice(p.Context(), p.login)
	if err != nil {
		p.Fatal(err)
	}
	defer d.close()
	var out bytes.Buffer
	if err := d.print(p.Context(), &out); err != nil {
		p.Fatal(err)
	}
	for _, text := range texts {
		if !strings.Contains(out.String(), ": "+text+"\n") {
			p.Errorf("%q is not shown:\n%s", text, out.String())
		}
	}
	if strings.Contains(out.String(), "cannot be read") {
		p.Errorf("shown:\n%s", out.String())
	}
	return out.String()
}

// edit returns the content of an edit.
func edit(target, text string) map[string]any {
	return map[string]any{
		"msgtype": "m.text", "body": "* " + text, "m.new_content": map[string]any{"msgtype": "m.text", "body": text},
		"m.relates_to": map[string]any{"rel_type": "m.replace", "event_id": target},
	}
}

// Called again and again, the command shows what plain and encrypted rooms hold, with one device, also after the homeserver
// has ended its session.
func TestMessages_Repeated_ShowsEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a homeserver; `make test` runs it")
	}
	ctx := t.Context()
	server, err := servertest.SharedSynapse(ctx)
	if err != nil {
		t.Fatal(err)
	}
	name := servertest.Name()
	reader := "@" + name + "reader:localhost"
	sender, err := server.NewUser(ctx, name+"sender", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.CreateUser(ctx, name+"reader", "reader-password", false); err != nil {
		t.Fatal(err)
	}
	p := person{t, login{base: server.URL, user: name + "reader", password: "reader-password", dir: filepath.Join(t.TempDir(), "device")}}
	p.shows() // which makes the device

	hall, err := sender.CreateRoom(ctx, "hall", []string{reader}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := sender.CreateRoom(ctx, "sealed", []string{reader}, map[string]any{"initial_state": []map[string]any{
		{"type": "m.room.encryption", "state_key": "", "content": map[string]any{"algorithm": "m.megolm.v1.aes-sha2"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	device := servertest.NewReader(t, server.URL, name+"sender", sender.Password)
	var all []string
	for _, text := range []string{"first", "second", "third"} {
		if _, err := sender.Send(ctx, hall, "m.room.message", map[string]string{"msgtype": "m.text", "body": "open " + text}); err != nil {
			t.Fatal(err)
		}
		sendEncrypted(ctx, t, device, id.UserID(reader), id.RoomID(sealed), map[string]any{"msgtype": "m.text", "body": "sealed " + text})
		all = append(all, "open "+text, "sealed "+text)
		p.shows(all...)
	}

	sent, err := sender.Send(ctx, hall, "m.room.message", map[string]string{"msgtype": "m.text", "body": "open fourth"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"open fifth", "open sixth"} {
		if _, err := sender.Send(ctx, hall, "m.room.message", edit(sent, text)); err != nil {
			t.Fatal(err)
		}
	}
	hidden := sendEncrypted(ctx, t, device, id.UserID(reader), id.RoomID(sealed), map[string]any{"msgtype": "m.text", "body": "sealed fourth"})
	sendEncrypted(ctx, t, device, id.UserID(reader), id.RoomID(sealed), edit(string(hidden), "sealed fifth"))
	all = append(all, "open sixth (edited)", "sealed fifth (edited)")
	for _, text := range []string{"* ", "fourth", "open fifth"} {
		if shown := p.shows(all...); strings.Contains(shown, text) {
			t.Errorf("%q is shown:\n%s", text, shown)
		}
	}

	again, err := server.Login(ctx, name+"reader", "reader-password")
	if err != nil {
		t.Fatal(err)
	}
	var kept session
	devices := func() (named int) {
		var list struct {
			Devices []struct {
				ID   string `json:"device_id"`
				Name string `json:"display_name"`
			}
		}
		if err := server.Call(ctx, again.Token, "GET", "/_matrix/client/v3/devices", nil, &list); err != nil {
			t.Fatal(err)
		}
		for _, d := range list.Devices {
			if d.Name == deviceName {
				named++
				kept.Device = id.DeviceID(d.ID)
			}
		}
		return named
	}
	if n := devices(); n != 1 {
		t.Errorf("the command has %d devices", n)
	}
	asAdmin, err := server.NewUser(ctx, name+"admin", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Call(ctx, asAdmin.Token, "DELETE", "/_synapse/admin/v2/users/"+reader+"/devices/"+string(kept.Device), nil, nil); err != nil {
		t.Fatal(err)
	}
	p.shows(all...)
	sendEncrypted(ctx, t, device, id.UserID(reader), id.RoomID(sealed), map[string]any{"msgtype": "m.text", "body": "sealed sixth"})
	p.shows(append(all, "sealed sixth")...)
}

// sendEncrypted sends a message to the devices of the reader, as a client does that begins a new session for each.
func sendEncrypted(ctx context.Context, t *testing.T, from *servertest.Reader, to id.UserID, room id.RoomID, content map[string]any) id.EventID {
	t.Helper()
	states, ok := from.Machine.StateStore.(mautrix.StateStore)
	if !ok {
		t.Fatal("the sender has no store of rooms")
	}
	if err := states.SetEncryptionEvent(ctx, room, &event.EncryptionEventContent{Algorithm: id.AlgorithmMegolmV1}); err != nil {
		t.Fatal(err)
	}
	if err := from.Machine.CryptoStore.RemoveOutboundGroupSession(ctx, room); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Machine.FetchKeys(ctx, []id.UserID{to}, true); err != nil {
		t.Fatal(err)
	}
	if err := from.Machine.ShareGroupSession(ctx, room, []id.UserID{to}); err != nil {
		t.Fatal(err)
	}
	encrypted, err := from.Machine.EncryptMegolmEvent(ctx, room, event.EventMessage, content)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := from.Client.SendMessageEvent(ctx, room, event.EventEncrypted, encrypted)
	if err != nil {
		t.Fatal(err)
	}
	return sent.EventID
}
