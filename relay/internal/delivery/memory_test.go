package delivery_test

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// TestMemoryIsBounded keeps 20 MiB of messages waiting.
func TestMemoryIsBounded(t *testing.T) {
	r := relaytest.NewRig(t)
	r.HS.ProbeErr = &matrix.SendError{Class: matrix.ClassAway}
	r.Start()
	before := heap()
	for i := range 20 {
		token := r.NewApp(fmt.Sprint(i), fmt.Sprintf("!%d:hs", i)).Token
		for k := range 10 {
			r.Post(token, fmt.Sprint(k)+strings.Repeat("x", 100_000))
		}
	}
	if held := heap() - before; held > 8<<20 {
		t.Errorf("%d bytes are held in memory", held)
	}
	r.HS.ComeBack()
	r.Delivery().Handle(matrix.Online{})
	r.Drained()
	for i := range 20 {
		n := 0
		for _, e := range r.HS.Events[fmt.Sprintf("!%d:hs", i)] {
			if e.Kind == "m.text" {
				if e.Body[:1] != fmt.Sprint(n) {
					t.Errorf("room %d: event %d begins %q", i, n, e.Body[:1])
				}
				n++
			}
		}
		if n != 10 {
			t.Errorf("room %d has %d events", i, n)
		}
	}
}

// TestMemoryIsBoundedWhileItIsSent: when the homeserver is back, many rooms have much to
// send, a few at a time.
func TestMemoryIsBoundedWhileItIsSent(t *testing.T) {
	const rooms, each, parallel = 100, 6, 4
	r := relaytest.NewRig(t, func(o *service.Options) { o.Delivery.Parallel = parallel })
	r.HS.ProbeErr = &matrix.SendError{Class: matrix.ClassAway}
	r.Start()
	for i := range rooms {
		token := r.NewApp(fmt.Sprint(i), fmt.Sprintf("!%d:hs", i)).Token
		for k := range each {
			r.Post(token, fmt.Sprint(k)+strings.Repeat("x", 40_000))
		}
	}
	var most, events atomic.Int64
	before := heap()
	r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer {
		if events.Add(1)%20 == 0 {
			most.Store(max(most.Load(), heap()-before-events.Load()*40_000)) // without what the room has got
		}
		return &relaytest.Answer{Store: true, Delay: 2 * time.Millisecond}
	}
	r.HS.ComeBack()
	r.Delivery().Handle(matrix.Online{})
	r.Drained()
	if held := most.Load(); held > 16<<20 { // of 30 MB
		t.Errorf("%d MiB were held in memory", held>>20)
	}
	for i := range rooms {
		if got := r.HS.Bodies(fmt.Sprintf("!%d:hs", i)); len(got) != each || got[0][0] != '0' || got[each-1][0] != '0'+each-1 {
			t.Fatalf("room %d has %d events", i, len(got))
		}
	}
}

// heap returns how many bytes a collection finds in use. What others allocate while this goroutine waits for a
// processor is not counted.
func heap() int64 {
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return int64(live[0].Value.Uint64())
}
