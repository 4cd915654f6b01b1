package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"slipway/relay/internal/servertest"
)

// A user's application sends only to a room that the user is in, as the homeserver says, and only for as long.
func TestRight_UserInAndOutOfTheRoom(t *testing.T) {
	s := newSite(t)
	s.start()
	anna, err := homeserver.NewUser(s.ctx, s.name+"anna", false)
	s.must(err)
	status, out := s.ask(http.MethodPost, "/user", object{"name": "anna", "password": "password of anna", "matrix_id": anna.ID})
	if status != http.StatusCreated {
		t.Fatalf("create the user: %d %v", status, out)
	}
	asAnna := func(r *http.Request) { r.SetBasicAuth("anna", "password of anna") }
	room := s.ownersRoom(nil)
	s.becomes(s.say(s.application("admin's", room), "an administrator names any room"), "sent")

	create := func() (int, object) {
		return s.request(http.MethodPost, "/application", object{"name": "anna's", "room_id": room}, asAnna)
	}
	if status, out := create(); status != http.StatusForbidden || !strings.Contains(out.text("errorDescription"), anna.ID) {
		t.Errorf("a stranger: %d %v", status, out)
	}
	s.must(s.owner.Invite(s.ctx, room, anna.ID))
	if status, out := create(); status != http.StatusForbidden {
		t.Errorf("invited only: %d %v", status, out)
	}
	s.must(anna.Join(s.ctx, room))
	s.proxy.Script(servertest.Rule{Path: "/m.room.member/", Fault: servertest.Matrix(503, "M_UNKNOWN")})
	if status, out := create(); status != http.StatusServiceUnavailable {
		t.Errorf("while nobody can tell: %d %v", status, out)
	}
	s.proxy.Script()
	status, out = create()
	if status != http.StatusCreated {
		t.Fatalf("a member: %d %v", status, out)
	}
	a := app{id: out.id(), token: out.text("token"), room: room}
	s.becomes(s.say(a, "anna is there"), "sent")

	send := func() int {
		status, _ := s.request(http.MethodPost, "/message", object{"token": a.token, "message": "x"}, nil)
		return status
	}
	s.must(s.owner.Kick(s.ctx, room, anna.ID))
	s.eventually("messages are refused", func() bool { return send() == http.StatusForbidden })
	_, out = s.ask(http.MethodGet, fmt.Sprint("/application/", a.id), nil)
	if out["owner_absent"] != true || out.text("room_name") == "" {
		t.Errorf("the application says %v", out)
	}
	s.must(s.owner.Invite(s.ctx, room, anna.ID))
	s.must(anna.Join(s.ctx, room))
	s.eventually("messages are taken again", func() bool { return send() == http.StatusOK })
}
