package relay

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A message that is handed to its room is sent as one that the room has read: nothing of its application is missing.
func TestHandedMessageIsSentAsOneThatIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		app := r.app("a", "!a:hs")
		mention, show := "@anna:hs", ShowAlways
		if _, err := r.UpdateApplication(ctx, r.admin, app.Application.ID, ApplicationInput{Mention: &mention, ShowSender: &show}); err != nil {
			t.Fatal(err)
		}
		var contents []string
		r.hs.script = func(out Outgoing, _ int) *answer {
			contents = append(contents, strings.ReplaceAll(string(out.Content), out.TxnID, "marker"))
			return nil
		}
		send := func() {
			a, err := r.Accept(ctx, AcceptRequest{Token: app.Token, Title: "t", Message: "**m**", Priority: p(2), NativeScale: true})
			if err != nil {
				t.Fatal(err)
			}
			if m, _ := r.Wait(ctx, r.admin, a.ID, time.Minute); (len(contents) > 0) != (m.State == StateSent) {
				t.Errorf("the message is %s", m.State)
			}
		}
		send() // read when the delivery begins
		r.run()
		time.Sleep(time.Second)
		send() // handed
		if len(contents) != 2 || contents[0] != contents[1] || !strings.Contains(contents[0], mention) {
			t.Errorf("sent %q", contents)
		}
	})
}
