package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"slipway/relay/internal/servertest"
)

// The relay is killed before it has an answer, and the homeserver loses its transactions, as Dendrite does at a restart. With
// delivery.searchfirst each message is in the room once.
func TestForgetfulHomeserver(t *testing.T) {
	stub := newStub(t)
	s := newSiteAt(t, stub.url)
	s.env = []string{"RELAY_DELIVERY_SEARCHFIRST=true"}
	s.start()
	a := s.application("forgetful", "")
	s.becomes(s.say(a, "before"), "sent")
	want := []string{"before"}
	for round := range 3 {
		for _, fault := range []struct {
			name    string
			arrives bool
			fault   servertest.Fault
		}{{"arrives", true, servertest.HangAfter()}, {"is lost", false, servertest.Hang()}} {
			text := fmt.Sprint(round, " ", fault.name)
			had, sends := stub.count(), len(s.proxy.Records("/send/"))
			s.proxy.Script(servertest.Rule{Method: http.MethodPut, Path: "/send/", Fault: fault.fault})
			s.say(a, text)
			s.eventually("it is sent", func() bool { return len(s.proxy.Records("/send/")) > sends && (!fault.arrives || stub.count() > had) })
			s.kill()
			stub.forget()
			s.proxy.Script()
			s.start()
			s.becomes(s.say(a, text+", next"), "sent")
			want = append(want, text, text+", next")
		}
	}
	if got := stub.bodies(a.room); !slices.Equal(got, want) {
		t.Errorf("in the room: %q\nwant: %q", got, want)
	}
}
