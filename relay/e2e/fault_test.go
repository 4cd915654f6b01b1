package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
)

// Each fault hits some attempts of a row of messages; what arrives is every message once and in order. Package matrix
// has what the homeserver refuses without a doubt.
func TestFaultsOfSendingEndWithOneEventEach(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]servertest.Fault{
		"dropped answer":         servertest.DropAnswer(),
		"half an answer":         servertest.Truncate(),
		"cut JSON":               servertest.Cut(),
		"web page with 200":      servertest.ReplaceAnswer(http.StatusOK, "<html>hello</html>"),
		"web page with 502":      servertest.ReplaceAnswer(http.StatusBadGateway, "<html>bad gateway</html>"),
		"soft logout":            servertest.Answer(http.StatusUnauthorized, `{"errcode":"M_UNKNOWN_TOKEN","soft_logout":true}`),
		"slow":                   servertest.Delay(500 * time.Millisecond),
		"no answer (half-open)":  servertest.Hang(),
		"no answer after it did": servertest.HangAfter(),
	} {
		t.Run(name, func(t *testing.T) {
			stub := newStub(t)
			s := newSiteAt(t, stub.url)
			s.sendsDespite(fault, "1s", func(a app) []string { return stub.bodies(a.room) })
		})
	}
	t.Run("no answer of Synapse", func(t *testing.T) {
		s := newSite(t)
		s.sendsDespite(servertest.HangAfter(), "2s", func(a app) []string { return s.bodies(a.room) })
	})
}

// sendsDespite sends five messages, and two of the sends meet the fault. The timeout holds for these requests; making the room may
// take longer.
func (s *site) sendsDespite(fault servertest.Fault, timeout string, bodies func(app) []string) {
	s.Helper()
	s.start()
	a := s.application("faulty", "")
	s.becomes(s.say(a, "m0"), "sent")
	s.stop()
	s.timeout = timeout
	s.start()
	s.proxy.Script(servertest.Rule{Method: http.MethodPut, Path: "/send/", Times: 2, Fault: fault})
	want := []string{"m0"}
	for i := range 5 {
		want = append(want, fmt.Sprint("m", i+1))
		s.say(a, want[i+1])
	}
	s.eventually("all arrive", func() bool { return len(bodies(a)) >= len(want) })
	if got := bodies(a); !slices.Equal(got, want) {
		s.Errorf("in the room: %q\nwant: %q", got, want)
	}
	for _, r := range s.proxy.Records("/login") {
		if r.Status != http.StatusOK {
			s.Errorf("a login was refused: %d", r.Status)
		}
	}
}

func TestHomeserverAwayAtStart(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("early", "")
	s.becomes(s.say(a, "m0"), "sent")
	s.stop()
	s.proxy.Down()
	s.start()
	s.say(a, "m1")
	id := s.say(a, "m2")
	if got := s.message(id).text("status"); got == "sent" || got == "dead" {
		t.Errorf("status %s without a homeserver", got)
	}
	s.must(s.proxy.Up())
	s.arrives(a.room, "m0", "m1", "m2")
}

// The device is gone with the session: whether an attempt under it arrived is
// settled by the room's history, both ways.
func TestHardLogoutSettlesByHistory(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]servertest.Fault{"it had arrived": servertest.DropAnswer(), "it had not": servertest.Drop()} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.start()
			a := s.application("logout", "")
			s.becomes(s.say(a, "m0"), "sent")
			s.proxy.Script(servertest.Rule{Method: http.MethodPut, Path: "/send/", Fault: fault})
			s.proxy.Forget()
			id := s.say(a, "m1")
			s.becomes(id, "retry_wait")
			token := s.botToken()
			s.must(homeserver.Call(s.ctx, token, http.MethodPost, "/_matrix/client/v3/logout", struct{}{}, nil))
			s.proxy.Script()
			s.say(a, "m2")
			s.arrives(a.room, "m0", "m1", "m2")
		})
	}
}

func TestRoomUpgradeMovesTheApplication(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("mover", s.ownersRoom(map[string]any{"room_version": "11"}))
	s.becomes(s.say(a, "m0"), "sent")
	now, err := s.owner.Upgrade(s.ctx, a.room, "12")
	s.must(err)
	s.say(a, "m1")
	_ = s.owner.Invite(s.ctx, now, s.botID) // the upgrade may have invited it
	s.say(a, "m2")
	s.eventually("m2 in the new room", func() bool {
		got := s.bodies(now)
		return len(got) > 0 && got[len(got)-1] == "m2"
	})
	_, out := s.ask(http.MethodGet, fmt.Sprint("/application/", a.id), nil)
	if out.text("resolved_room_id") != now {
		t.Errorf("application %v, want room %s", out, now)
	}
	// m1 is in one of the rooms, once.
	if n := strings.Count(strings.Join(append(s.bodies(a.room), s.bodies(now)...), " "), "m1"); n != 1 {
		t.Errorf("m1 arrived %d times", n)
	}
}

func TestKickedBannedInvitedAgain(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("kicked", s.ownersRoom(nil))
	s.becomes(s.say(a, "m0"), "sent")
	s.must(s.owner.Kick(s.ctx, a.room, s.botID))
	m := s.becomes(s.say(a, "m1"), "blocked")
	s.wantReason(m, "room")
	s.must(s.owner.Ban(s.ctx, a.room, s.botID))
	s.say(a, "m2")
	s.must(s.owner.Call(s.ctx, http.MethodPost, "/_matrix/client/v3/rooms/"+a.room+"/unban", map[string]string{"user_id": s.botID}, nil))
	s.must(s.owner.Invite(s.ctx, a.room, s.botID))
	s.arrives(a.room, "m0", "m1", "m2")
}

func TestPowerLevelBlocksTheRoom(t *testing.T) {
	s := newSite(t)
	s.start()
	a, other := s.application("mute", s.ownersRoom(nil)), s.application("loud", "")
	s.becomes(s.say(a, "m0"), "sent")
	levels := func(events int) map[string]any {
		return map[string]any{"users": map[string]int{}, "events_default": events}
	}
	s.must(s.owner.SetState(s.ctx, a.room, "m.room.power_levels", levels(50)))
	m := s.becomes(s.say(a, "m1"), "blocked")
	s.wantReason(m, "power level")
	s.becomes(s.say(other, "meanwhile"), "sent")
	s.must(s.owner.SetState(s.ctx, a.room, "m.room.power_levels", levels(0)))
	s.arrives(a.room, "m0", "m1")
}

// While nothing is sent, health tells that the homeserver is away, and when it is back.
func TestHealth_NothingIsSent_TellsThatTheHomeserverIsAway(t *testing.T) {
	s := newSite(t)
	s.start()
	colour := func() string {
		_, out := s.ask(http.MethodGet, "/health", nil)
		return out.text("matrix")
	}
	s.eventually("green", func() bool { return colour() == "green" })
	s.proxy.Script(servertest.Rule{Path: "/sync", Fault: servertest.Matrix(503, "M_UNKNOWN")})
	s.eventually("orange while only sync fails", func() bool { return colour() == "orange" })
	s.proxy.Script()
	s.eventually("green again", func() bool { return colour() == "green" })
	s.proxy.Down()
	s.eventually("red", func() bool { return colour() == "red" })
	s.must(s.proxy.Up())
	s.eventually("green in the end", func() bool { return colour() == "green" })
}
