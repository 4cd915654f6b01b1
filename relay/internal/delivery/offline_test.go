package delivery_test

import (
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// What sync hears nothing of is told while nothing is sent: degraded as long as the homeserver responds
// otherwise, paused if it does not.
func TestOffline(t *testing.T) {
	for name, tt := range map[string]struct {
		probe    error
		degraded string
		paused   string
	}{
		"answers otherwise":   {nil, "sync fails", ""},
		"fails otherwise too": {&matrix.SendError{Class: matrix.ClassRetry, Status: 500, Reason: "the homeserver failed"}, "sync fails", ""},
		"gives no answer":     {&matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer in time"}, "sync fails", "no answer in time"},
		"is away":             {&matrix.SendError{Class: matrix.ClassAway, Reason: "connection refused"}, "sync fails", "connection refused"},
		"has ended the login": {&matrix.SendError{Class: matrix.ClassLocked, Reason: "locked"}, "sync fails", "locked"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := make(chan matrix.Event)
				r := relaytest.NewRig(t, func(o *service.Options) { o.Events = events })
				r.Start()
				synctest.Wait()
				r.HS.Do(func() { r.HS.ProbeErr = tt.probe })
				events <- matrix.Offline{Reason: "sync fails"}
				synctest.Wait()
				if st := r.Status(ctx); st.Degraded != tt.degraded || st.Paused != tt.paused {
					t.Errorf("degraded %q, paused %q; want %q and %q", st.Degraded, st.Paused, tt.degraded, tt.paused)
				}
				r.HS.ComeBack()
				events <- matrix.Online{}
				time.Sleep(time.Second)
				if st := r.Status(ctx); st.Degraded != "" || st.Paused != "" {
					t.Errorf("after it came back: degraded %q, paused %q", st.Degraded, st.Paused)
				}
			})
		})
	}
}
