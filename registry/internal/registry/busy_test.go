package registry

import (
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/driver/memory"
)

// Others learn of requests while they are under way, and not of a server that
// has nothing to do.
func TestOthersLearnOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory.New()
		r := New(Options{Driver: d})
		leave, err := r.Serve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		look := func(want bool, when string) {
			t.Helper()
			if d.Busy(t.Context()) != want {
				t.Errorf("busy %s: %t", when, !want)
			}
		}
		time.Sleep(time.Hour)
		look(false, "without a request")
		r.BeginRequest()
		for range 5 {
			time.Sleep(time.Minute)
			look(true, "during a request")
		}
		r.EndRequest()
		time.Sleep(2 * time.Second)
		look(false, "after a request")
		r.BeginRequest()
		r.EndRequest()
		time.Sleep(noteEvery + time.Millisecond)
		look(true, "after a short request")
	})
}
