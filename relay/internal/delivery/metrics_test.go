package delivery_test

import (
	"testing"

	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// A relay delivers from Run until its end: one that has read the rooms and then failed to begin does not.
func TestMetrics_Delivering_IsOneWhileItRuns(t *testing.T) {
	r := relaytest.NewRig(t)
	want := func(when string, value float64) {
		t.Helper()
		families, err := r.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if got := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() == "relay_delivering" && got == value {
				return
			}
		}
		t.Errorf("%s: relay_delivering is not %v", when, value)
	}
	want("before", 0)
	r.Start()
	r.Await(r.Post(r.NewApp("a", "!a:hs").Token, "x"), post.StateSent)
	want("while it sends", 1)
	r.Stop()
	want("afterwards", 0)
}
