package relay

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// While the disk is full the results of attempts are known in memory only. A message
// that may have arrived is not sent anew by another device then.
func TestAttemptThatCannotBeStored(t *testing.T) {
	r := newRig(t)
	pages := func(n int) {
		if err := r.store.LimitPages(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	var once sync.Once
	r.hs.script = func(Outgoing, int) (a *answer) {
		once.Do(func() {
			pages(1)
			a = &answer{err: &SendError{Class: ClassRetry, Reason: "no answer"}, store: true}
		})
		return a
	}
	r.run()
	app := r.app("a", "!a:hs")
	id := r.send(app.Token, strings.Repeat("x ", 20_000))
	for range 500 {
		if len(r.hs.bodies("!a:hs")) == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	r.hs.mu.Lock()
	r.hs.device = "DEV2"
	r.hs.mu.Unlock()
	r.store.Retry(r.App(app.Application.ID).Row().RoomID) // what was read is to be read again
	for range 500 {
		if n := len(r.hs.times("!a:hs")); n > 1 {
			break
		}
		if r.waiting() == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	pages(1 << 30)
	r.await(id, StateSent)
	if n := len(r.hs.bodies("!a:hs")); n != 1 {
		t.Errorf("it is in the room %d times", n)
	}
}
