package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
)

// What sync hears nothing of is told while nothing is sent: degraded as long as the homeserver gives a sign of life
// otherwise, paused if it does not.
func TestOffline(t *testing.T) {
	for name, tt := range map[string]struct {
		probe    error
		degraded string
		paused   string
	}{
		"answers otherwise":   {nil, "sync fails", ""},
		"fails otherwise too": {&SendError{Class: ClassRetry, Status: 500, Reason: "the homeserver failed"}, "sync fails", ""},
		"gives no answer":     {&SendError{Class: ClassRetry, Reason: "no answer in time"}, "sync fails", "no answer in time"},
		"is away":             {&SendError{Class: ClassAway, Reason: "connection refused"}, "sync fails", "connection refused"},
		"has ended the login": {&SendError{Class: ClassLocked, Reason: "locked"}, "sync fails", "locked"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := make(chan matrix.Event)
				r := newRig(t, func(o *Options) { o.Events = events })
				r.run()
				synctest.Wait()
				r.hs.mu.Lock()
				r.hs.probeErr = tt.probe
				r.hs.mu.Unlock()
				events <- matrix.Offline{Reason: "sync fails"}
				synctest.Wait()
				if st := r.Status(ctx); st.Degraded != tt.degraded || st.Paused != tt.paused {
					t.Errorf("degraded %q, paused %q; want %q and %q", st.Degraded, st.Paused, tt.degraded, tt.paused)
				}
				r.hs.comeBack()
				events <- matrix.Online{}
				time.Sleep(time.Second)
				if st := r.Status(ctx); st.Degraded != "" || st.Paused != "" {
					t.Errorf("after it came back: degraded %q, paused %q", st.Degraded, st.Paused)
				}
			})
		})
	}
}
