package relay

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/relay/internal/matrix"
)

// TestMemoryIsBounded keeps 20 MiB of messages waiting.
func TestMemoryIsBounded(t *testing.T) {
	r := newRig(t)
	r.hs.probeErr = &SendError{Class: ClassAway}
	r.run()
	before := heap()
	for i := range 20 {
		token := r.app(fmt.Sprint(i), fmt.Sprintf("!%d:hs", i)).Token
		for k := range 10 {
			r.send(token, fmt.Sprint(k)+strings.Repeat("x", 100_000))
		}
	}
	if held := heap() - before; held > 8<<20 {
		t.Errorf("%d bytes are held in memory", held)
	}
	r.hs.comeBack()
	r.delivery.Load().Handle(matrix.Online{})
	r.drained()
	for i := range 20 {
		n := 0
		for _, e := range r.hs.events[fmt.Sprintf("!%d:hs", i)] {
			if e.kind == "m.text" {
				if e.body[:1] != fmt.Sprint(n) {
					t.Errorf("room %d: event %d begins %q", i, n, e.body[:1])
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
	r := newRig(t, func(o *Options) { o.Delivery.Parallel = parallel })
	r.hs.probeErr = &SendError{Class: ClassAway}
	r.run()
	for i := range rooms {
		token := r.app(fmt.Sprint(i), fmt.Sprintf("!%d:hs", i)).Token
		for k := range each {
			r.send(token, fmt.Sprint(k)+strings.Repeat("x", 50_000))
		}
	}
	var most, events atomic.Int64
	before := heap()
	r.hs.script = func(Outgoing, int) *answer {
		if events.Add(1)%20 == 0 {
			most.Store(max(most.Load(), heap()-before-events.Load()*50_000)) // without what the room has got
		}
		return &answer{store: true, delay: 2 * time.Millisecond}
	}
	r.hs.comeBack()
	r.delivery.Load().Handle(matrix.Online{})
	r.drained()
	if held := most.Load(); held > 16<<20 { // of 30 MB
		t.Errorf("%d MiB were held in memory", held>>20)
	}
	for i := range rooms {
		if got := r.hs.bodies(fmt.Sprintf("!%d:hs", i)); len(got) != each || got[0][0] != '0' || got[each-1][0] != '0'+each-1 {
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
