package delivery_test

import (
	"testing"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/store"
)

// A room that always gets its messages one by one remembers no more of those that are sent than may be unknown to the
// database, and neither does one that gets them all at once.
func TestQueueForgetsWhatIsSettled(t *testing.T) {
	r := relaytest.NewRig(t)
	r.Start()
	app := r.NewApp("a", "!a:hs")
	all := make([]post.Draft, 3*store.Window)
	for i := range all {
		all[i].Body = "x"
	}
	sender, err := r.Sender(ctx, app.Token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.AcceptAll(ctx, sender, all...); err != nil {
		t.Fatal(err)
	}
	r.Drained()
	for range all {
		if m, err := r.Wait(ctx, r.Admin, r.Post(app.Token, "x"), time.Minute); err != nil || m.State != post.StateSent {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	r.Stop()
	if n := r.Delivery().Finished(); n > store.Window {
		t.Errorf("%d final entries are remembered", n)
	}
	if n := len(r.HS.Bodies("!a:hs")); n != 2*len(all) {
		t.Errorf("%d messages are sent", n)
	}
}
