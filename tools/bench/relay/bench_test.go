package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"slipway/tools/harness"
)

// TestFull_Run measures the relay for a moment: all that was accepted arrives, once, and each number is there.
func TestFull_Run(t *testing.T) {
	binary := harness.Binary(t, "relay")
	results, err := Run(t.Context(), Options{
		Peers: []Peer{Ours(binary), Encrypted(Ours(binary), 3)}, Loads: []Load{{Connections: 16}, {Connections: 4, Rate: 200}}, Duration: 500 * time.Millisecond, Rooms: 3, Log: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Accepted == 0 || r.Missing+r.Repeats+r.Refused != 0 || r.TakenIn <= 0 || r.Delivered <= 0 || r.AnswerP99 < r.AnswerP50 || r.ArriveP50 <= 0 || r.Peak == 0 {
			t.Errorf("%+v", r)
		}
	}
	for _, r := range results[2:] {
		if r.Accepted != 100 || r.TakenIn > 100/0.495+0.1 { // the last one is due after 495 ms
			t.Errorf("%s: %d messages were accepted, %.1f a second, at 200 a second for half a second", r.Peer, r.Accepted, r.TakenIn)
		}
	}
	var table bytes.Buffer
	if err := Report(&table, results); err != nil || strings.Count(table.String(), "\n") != 6 || !strings.Contains(table.String(), "200 a second") {
		t.Errorf("%v\n%s", err, &table)
	}
}

func TestResult(t *testing.T) {
	hs, err := startSink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer hs.stop()
	began := time.Now()
	s := sent{at: map[string]time.Time{"0.0": began, "0.1": began, "0.2": began}, took: time.Second}
	for _, txn := range []string{"a", "b", "b"} {
		hs.take(txn, []byte(`{"body":"Backup: `+marker+map[string]string{"a": "0.0", "b": "0.1"}[txn]+` text"}`))
	}
	if r := result(s, hs, began); r.Accepted != 3 || r.Missing != 1 || r.Repeats != 1 || r.TakenIn != 3 {
		t.Errorf("%+v", r)
	}
	if q := quantile([]time.Duration{3, 1, 2}, 0.5); q != 2 {
		t.Errorf("the median is %d", q)
	}
}
