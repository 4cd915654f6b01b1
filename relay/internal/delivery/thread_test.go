package delivery_test

import (
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// A thread keeps its first event when the message of that was withdrawn or is too old to be kept: homeservers refuse a thread that
// begins with an event of another one. Its older messages are removed like others.
func TestThread_OutlivesItsRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Retention = 10 * time.Hour })
		sent := contents(r)
		app := r.NewApp("a", "!a:hs")
		submit := func(thread string) int64 {
			t.Helper()
			a := r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "m"}, Thread: thread})
			r.Await(a.ID, post.StateSent)
			r.Drained()
			return a.ID
		}
		r.Start()
		withdrawn := submit("withdrawn")
		submit("withdrawn")
		first := r.Stored(withdrawn).EventID
		r.Withdraw(withdrawn)
		r.Drained()
		r.Await(withdrawn, post.StateRedacted)
		submit("withdrawn")
		old := r.Stored(submit("old")).EventID
		for range 4 {
			time.Sleep(4 * time.Hour)
			submit("old")
		}
		r.Restart()
		submit("old")
		roots := map[string]int{}
		for _, c := range sent() {
			roots[c.Relation.EventID]++
		}
		if len(roots) != 3 || roots[""] != 2 || roots[first] != 2 || roots[old] != 5 {
			t.Errorf("roots %v; want %s and %s", roots, first, old)
		}
		page, err := r.Messages(ctx, r.Admin, service.Filter{})
		if err != nil || len(page.Messages) > 5 {
			t.Errorf("%d messages are kept, %v", len(page.Messages), err)
		}
	})
}
