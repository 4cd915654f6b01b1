//go:build goolm

package e2e

import (
	"net/http"
	"slices"
	"strconv"
	"testing"

	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

// The relay and Dendrite are killed between a message and its answer, and Dendrite loses its transactions. With delivery.searchfirst
// each message is in its room once and in order, in a plain room and an encrypted one. Without it one that arrived is there twice, and
// clients take the encrypted one for a replay.
func TestFull_Dendrite(t *testing.T) {
	dir := t.TempDir()
	port, err := programtest.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	launch := func() *servertest.Homeserver {
		hs, err := servertest.StartDendrite(t.Context(), programtest.Tool(t, "dendrite"), dir, port)
		if err != nil {
			t.Fatal(err)
		}
		return hs
	}
	hs := launch()
	t.Cleanup(func() { hs.Stop() })
	s := siteAt(t, hs.URL)
	s.owner, err = hs.NewUser(s.ctx, s.name+"owner", false)
	s.must(err)
	s.must(hs.CreateUser(s.ctx, s.name+"bot", botPassword, false))
	reader := servertest.NewReader(t, hs.URL, s.name+"owner", s.owner.Password)
	s.env = []string{"RELAY_DELIVERY_SEARCHFIRST=true"}
	s.start()
	plain := s.application("plain", "")
	sealed := s.application("sealed", s.ownersRoom(map[string]any{"initial_state": []map[string]any{{
		"type": "m.room.encryption", "state_key": "", "content": map[string]any{"algorithm": "m.megolm.v1.aes-sha2"},
	}}}))
	var want []string
	both := func(text string) {
		for _, a := range []app{plain, sealed} {
			s.becomes(s.say(a, text), "sent")
		}
		want = append(want, text)
	}
	arrived := func(room string) int { return len(s.events(room)) + len(s.sealed(room)) }
	sends := func() int { return len(s.proxy.Records("/send/m.room.")) }
	// between kills both while a text has been sent to both rooms and has no answers.
	between := func(text string, fault servertest.Fault, arrives int) {
		s.proxy.Script(servertest.Rule{Method: http.MethodPut, Path: "/send/m.room.", Fault: fault})
		for _, a := range []app{plain, sealed} {
			sent, had := sends(), arrived(a.room)
			s.say(a, text)
			s.eventually("it is sent", func() bool { return sends() > sent && arrived(a.room) == had+arrives })
		}
		s.kill()
		hs.Kill()
		hs = launch()
		s.proxy.Script()
		s.start()
		want = append(want, text)
	}
	both("before")
	for round := range 3 {
		text := strconv.Itoa(round)
		between(text+" arrives", servertest.HangAfter(), 1)
		both(text + " next")
		between(text+" is lost", servertest.Hang(), 0)
		both(text + " next but one")
	}
	s.reads(reader, sealed.room, want...)
	s.wantBodies(plain.room, want...)

	s.stop()
	s.env = nil
	s.start()
	between("twice", servertest.HangAfter(), 1)
	both("last")
	s.eventually("the encrypted room has all", func() bool { return slices.Equal(reader.Bodies(sealed.room), want) })
	if n := reader.Unread(sealed.room); n != 1 {
		t.Errorf("%d events cannot be read, want the repeat", n)
	}
	s.wantBodies(plain.room, slices.Insert(want, len(want)-1, "twice")...)
}
