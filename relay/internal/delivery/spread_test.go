package delivery_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// While the disk is full the file of a message exists only in memory: the next message waits for it.
func TestFile_CannotBeStored_TheNextMessageWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		var once sync.Once
		r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer {
			once.Do(func() { r.FillDisk(true) })
			return nil
		}
		app, text := r.NewApp("a", "!a:hs"), report(6000)
		r.Post(app.Token, text)
		next := r.Post(app.Token, "next")
		r.Start()
		time.Sleep(10 * time.Second)
		if n := len(r.HS.Bodies("!a:hs")); n != 1 {
			t.Errorf("the room has %d events while the disk is full", n)
		}
		r.FillDisk(false)
		if m, err := r.Wait(ctx, r.Admin, next, time.Minute); err != nil || m.State != post.StateSent {
			t.Fatalf("%+v, %v", m, err)
		}
		wantReport(r, text, "next")
	})
}
