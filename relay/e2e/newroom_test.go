package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"slipway/relay/internal/faultproxy"
)

// The relay is killed when the homeserver has made an application's room and the
// relay does not know its id yet: after the next start the application has that
// room, and there is no other one.
func TestKilledWhileARoomIsMade(t *testing.T) {
	s := newSite(t)
	s.start()
	before := s.application("another", "")
	s.proxy.Forget()
	s.proxy.Script(faultproxy.Rule{Path: "/createRoom", Times: 1, Fault: faultproxy.HangAfter()})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _, _ = s.try(http.MethodPost, "/application", object{"name": "killed"}, asAdmin) // nobody answers
	}()
	s.eventually("the homeserver makes the room", func() bool {
		made := s.proxy.Records("/createRoom")
		return len(made) == 1 && made[0].Status == http.StatusOK
	})
	s.kill()
	<-answered
	s.start()

	a := app{id: before.id + 1}
	a.room = s.roomOf(a.id)
	made := 0
	for _, r := range s.proxy.Records("/createRoom") {
		if r.Status == http.StatusOK {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d rooms were made, want 1", made)
	}
	if a.room == before.room {
		t.Error("it has another application's room")
	}
	s.must(s.owner.Join(s.ctx, a.room))
	_, token := s.ask(http.MethodPost, fmt.Sprintf("/application/%d/token", a.id), nil)
	a.token = token.text("token")
	s.say(a, "hello")
	s.arrives(a.room, "hello")
}
