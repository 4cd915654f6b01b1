//go:build goolm

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"slipway/relay/internal/servertest"
)

// Hundreds of messages, over more than ten sessions: a member's device reads each once and in order. A member who joins in the middle, and the
// first member's second device, read all that follows, and nothing of what was before the newcomer.
func TestFull_Encrypted_ManySessions(t *testing.T) {
	s := newSite(t)
	s.start()
	const half = 120
	room, first := s.sealedRoom()
	a := s.application("many", room)
	var want []string
	var last int64
	send := func(n int) {
		for range n {
			want = append(want, fmt.Sprint("message ", len(want)))
			last = s.say(a, want[len(want)-1])
		}
	}
	send(half)
	s.within(4*time.Minute, "the first half is sent", func() bool { return s.message(last).text("status") == "sent" })

	late, err := homeserver.NewUser(s.ctx, s.name+"late", false)
	s.must(err)
	others := []*servertest.Reader{
		servertest.NewReader(t, homeserver.URL, s.name+"owner", s.name+"owner-password"),
		servertest.NewReader(t, homeserver.URL, s.name+"late", late.Password),
	}
	s.must(s.owner.Invite(s.ctx, room, late.ID))
	s.must(others[1].Join(s.ctx, room))
	s.eventually("the relay knows who reads now", func() bool {
		send(1)
		s.becomes(last, "sent")
		return len(others[0].Bodies(room)) > 0 && len(others[1].Bodies(room)) > 0
	})
	send(half)
	s.within(4*time.Minute, "all messages are sent", func() bool { return s.message(last).text("status") == "sent" })
	s.reads(first, room, want...)
	for i, r := range others {
		var got []string
		s.eventually("the last message is read", func() bool {
			got = r.Bodies(room)
			return got[len(got)-1] == want[len(want)-1]
		})
		if from := len(want) - len(got); len(got) <= half || len(got) > len(want)-half || !slices.Equal(got, want[from:]) {
			t.Errorf("device %d of those who came later reads %d messages, the first of them %q", i, len(got), got[0])
		}
	}
	sessions := map[string]bool{}
	for _, e := range s.sealed(room) {
		sessions[e.Field("session_id")] = true
	}
	if len(sessions) < 11 {
		t.Errorf("%d messages went out in %d sessions", len(want), len(sessions))
	}
	s.noPlainText("message ")
}

// The relay is killed at each stage of a message's way. The messages to two encrypted rooms and a plain one arrive once each, and
// nothing of the encrypted ones can be read on the wire.
func TestEncrypted_KilledAtEachStage(t *testing.T) {
	newSite(t).killedAtEachStage(func() {})
}

// The same on PostgreSQL.
func TestFull_Encrypted_KilledAtEachStage_PostgreSQL(t *testing.T) {
	s := newSite(t)
	pg, err := servertest.SharedPostgres(s.ctx)
	s.must(err)
	dsn := pg.Database(t)
	s.env = []string{"RELAY_DATABASE_DIALECT=postgres", "RELAY_DATABASE_CONNECTION=" + dsn, "RELAY_MATRIX_PICKLE_KEY=a key for the tests of this package"}
	s.killedAtEachStage(func() { s.expireLease(dsn) }) // else the next start waits for that
}

// expireLease ends the lease of a relay that was killed.
func (s *site) expireLease(dsn string) {
	s.Helper()
	conn, err := pgx.Connect(s.ctx, dsn)
	s.must(err)
	defer conn.Close(s.ctx) //nolint:errcheck // nothing is left to do
	_, err = conn.Exec(s.ctx, `UPDATE lease SET expires_at = '-infinity'`)
	s.must(err)
}

func (s *site) killedAtEachStage(killed func()) {
	s.Helper()
	one, reader := s.sealedRoom()
	two := s.ownersRoom(map[string]any{"initial_state": []map[string]any{{
		"type": "m.room.encryption", "state_key": "", "content": map[string]any{"algorithm": "m.megolm.v1.aes-sha2"},
	}}})
	s.start()
	sealed, plain := []app{s.application("one", one), s.application("two", two)}, s.application("plain", "")
	s.kill()
	killed()
	var secret, open []string
	for _, stage := range []struct {
		name, path string
		fault      servertest.Fault
	}{
		{"one-time keys are claimed", "/keys/claim", servertest.HangAfter()},
		{"the device is opened", "/keys/query", servertest.Hang()},
		{"the members are asked for", "/members", servertest.Hang()},
		{"the room's key is sent", "/sendToDevice/", servertest.Hang()},
		{"the room's key has arrived", "/sendToDevice/", servertest.HangAfter()},
		{"the event is sent", "/send/m.room.encrypted/", servertest.Hang()},
		{"the event has arrived", "/send/m.room.encrypted/", servertest.HangAfter()},
	} {
		s.proxy.Script(servertest.Rule{Path: stage.path, Fault: stage.fault})
		before := len(s.proxy.Records(stage.path))
		s.start()
		secret, open = append(secret, "secret: "+stage.name), append(open, "open: "+stage.name)
		for _, a := range sealed {
			s.say(a, "secret: "+stage.name)
		}
		s.say(plain, "open: "+stage.name)
		s.eventually(stage.name, func() bool { return len(s.proxy.Records(stage.path)) > before })
		s.kill()
		killed()
	}
	s.proxy.Script()
	s.start()
	s.reads(reader, one, secret...)
	s.reads(reader, two, secret...)
	s.arrives(plain.room, open...)
	s.noPlainText("secret: ")
}
