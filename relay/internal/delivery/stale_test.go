package delivery_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// While the disk is full the results of attempts are known in memory only. A message
// that may have arrived is not sent again by another device then.
func TestAttemptThatCannotBeStored(t *testing.T) {
	r := relaytest.NewRig(t)
	var once sync.Once
	r.HS.Script = func(matrix.Outgoing, int) (a *relaytest.Answer) {
		once.Do(func() {
			r.FillDisk(true)
			a = &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: true}
		})
		return a
	}
	r.Start()
	app := r.NewApp("a", "!a:hs")
	id := r.Post(app.Token, strings.Repeat("x ", 20_000))
	for range 500 {
		if len(r.HS.Bodies("!a:hs")) == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	r.HS.Do(func() { r.HS.DeviceID = "DEV2" })
	r.Options.Store.Retry(r.Row(app.Application.ID).RoomID) // reads the queue again
	for range 500 {
		if n := len(r.HS.Times("!a:hs")); n > 1 {
			break
		}
		if r.Waiting() == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.FillDisk(false)
	r.Await(id, post.StateSent)
	if n := len(r.HS.Bodies("!a:hs")); n != 1 {
		t.Errorf("it is in the room %d times", n)
	}
}
