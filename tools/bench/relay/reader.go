//go:build goolm

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

// reader is a device of the person in the encrypted rooms, by which the bench knows what arrives.
type reader struct{ machine *crypto.OlmMachine }

const readerDevice = "READER"

// startDevices gives the person n devices, of which one reads.
func (s *sink) startDevices(ctx context.Context, n int) error {
	s.keys = &keyServer{devices: map[string]map[string]json.RawMessage{}, once: map[string]map[string]map[string]json.RawMessage{}}
	for i := range n {
		name := readerDevice
		if i > 0 {
			name = fmt.Sprint("DEVICE", i)
		}
		machine, err := s.newMachine(ctx, name)
		if err != nil {
			return err
		}
		if i == 0 {
			s.reader = &reader{machine}
		}
	}
	return nil
}

func (s *sink) newMachine(ctx context.Context, device string) (*crypto.OlmMachine, error) {
	base, err := url.Parse(s.url)
	if err != nil {
		return nil, err
	}
	client := &mautrix.Client{HomeserverURL: base, UserID: person, DeviceID: id.DeviceID(device), AccessToken: person + device, Client: http.DefaultClient, Log: zerolog.Nop()}
	states, ok := mautrix.NewMemoryStateStore().(crypto.StateStore)
	if !ok {
		return nil, errors.New("the library's state store does not suit its encryption")
	}
	quiet := zerolog.Nop()
	machine := crypto.NewOlmMachine(client, &quiet, crypto.NewMemoryStore(nil), states)
	return machine, errors.Join(machine.Load(ctx), machine.ShareKeys(ctx, 0))
}

// hear takes what the bot sends to devices.
func (r *reader) hear(body []byte) {
	var in struct {
		Messages map[id.UserID]map[id.DeviceID]json.RawMessage `json:"messages"`
	}
	_ = json.Unmarshal(body, &in) // of the relay: what cannot be read is missing at the end
	content := in.Messages[person][readerDevice]
	if content == nil {
		return
	}
	e := &event.Event{Sender: bot, Type: event.ToDeviceEncrypted, ToUserID: person, ToDeviceID: readerDevice}
	if json.Unmarshal(content, &e.Content) == nil && e.Content.ParseRaw(e.Type) == nil {
		r.machine.HandleToDeviceEvent(context.Background(), e)
	}
}

// decrypt returns the content of an event, nil if it cannot be read.
func (r *reader) decrypt(room, txn string, body []byte) []byte {
	e := &event.Event{Sender: bot, RoomID: id.RoomID(room), ID: id.EventID(txn), Type: event.EventEncrypted}
	if json.Unmarshal(body, &e.Content) != nil || e.Content.ParseRaw(e.Type) != nil {
		return nil
	}
	plain, err := r.machine.DecryptMegolmEvent(context.Background(), e)
	if err != nil {
		return nil
	}
	return plain.Content.VeryRaw
}
