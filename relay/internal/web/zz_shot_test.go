package web

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"slipway/relay/internal/doctor"
	"slipway/relay/internal/relay"
	"slipway/relay/internal/relaytest"
)

func TestShot(t *testing.T) {
	if os.Getenv("SHOT") == "" {
		t.Skip()
	}
	s, hs := relaytest.New(t, nil)
	hs.Has(relay.RoomInfo{RoomID: "!ops:example.org", Name: "Operations", Alias: "#ops:example.org", Joined: true, Writable: true})
	hs.Has(relay.RoomInfo{RoomID: "!backup:example.org", Name: "Backups", Joined: true, Writable: true})
	hs.Has(relay.RoomInfo{RoomID: "!secret:example.org", Name: "Family", Joined: true, Writable: true, Encrypted: true})
	hs.FailIn("!closed:example.org", &relay.SendError{Class: relay.ClassPark, Status: 403, Code: "M_FORBIDDEN", Reason: "the bot may not write in the room"})
	hs.FailIn("!bad:example.org", &relay.SendError{Class: relay.ClassDead, Status: 400, Code: "M_BAD_JSON", Reason: "the homeserver does not accept the event"})
	v, err := s.Authenticate(context.Background(), relaytest.AdminName, relaytest.AdminPassword, "x")
	if err != nil {
		t.Fatal(err)
	}
	mk := func(name, room string) relay.IssuedToken {
		a, err := s.CreateApplication(context.Background(), v, relay.ApplicationInput{Name: &name, Room: &room})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ops, backup, closed, bad, _ := mk("Grafana alerts", "#ops:example.org"), mk("Nightly backup", "!backup:example.org"), mk("Door bell", "!closed:example.org"), mk("Legacy importer", "!bad:example.org"), mk("Build server", "")
	send := func(a relay.IssuedToken, title, text string, p int) {
		if _, err := s.Accept(context.Background(), relay.AcceptRequest{Token: a.Token, Title: title, Message: text, Priority: &p, NativeScale: true, Source: "api"}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		send(backup, fmt.Sprintf("Backup %d finished", i), "All **42** volumes are safe, 18.3 GB in 12 min.", -1)
	}
	send(ops, "Disk almost full on db-3", "## /var at 94 %\n\n| mount | used |\n|---|---|\n| /var | 94 % |\n| / | 41 % |\n\n- **grows** by 2 GB an hour\n- last cleaned [yesterday](https://grafana.example.org)\n\n```\ndf -h /var\n```\n> look soon", 2)
	send(ops, "", "Latency is back to normal", 0)
	send(closed, "Somebody is at the door", "Camera 1", 1)
	send(bad, "Import failed", "The importer sent something odd.", 0)
	name, pass, mx := "maria", "long enough", "@maria:example.org"
	if _, err := s.CreateUser(context.Background(), v, relay.UserInput{Name: &name, Password: &pass, MatrixID: &mx}); err != nil {
		t.Fatal(err)
	}
	w, err := New(Options{Service: s, Patient: doctor.Patient{Service: s, Probe: hs.Probe, Identity: hs.Identity}, Homeserver: "https://matrix.example.org", AdminName: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.ListenAndServe("127.0.0.1:18099", w) }()
	time.Sleep(20 * time.Minute)
}
