package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
)

// The primary of PostgreSQL dies under load. While only its standby is there nothing is accepted, and the relays say why; once
// that is promoted they continue there. Replication was synchronous: each message that was accepted arrives once, and in order.
func TestFull_Failover_PrimaryKilled_NothingAcceptedIsLost(t *testing.T) {
	stub := newStub(t)
	f := newFleetOfItsOwn(t, stub.url, 2)
	standby, err := f.pg.Standby(f.ctx)
	f.must(err)
	t.Cleanup(standby.Remove)
	f.dsn = servertest.AnyDSN(f.database, f.pg, standby)
	for _, m := range f.relays {
		m.start()
	}
	leader := f.delivers(nil)
	if said := leader.findings(); !strings.Contains(said, "replicates synchronously") {
		t.Errorf("the doctor: %s", said)
	}
	a := f.application("survivor", "")

	var over atomic.Bool
	var senders sync.WaitGroup
	var accepted [4]atomic.Int64
	for i := range accepted {
		senders.Go(func() {
			for n := 0; !over.Load() && f.ctx.Err() == nil; n++ {
				f.insist(a, fmt.Sprintf("s%d-%d", i, n))
				accepted[i].Store(int64(n + 1))
			}
		})
	}
	count := func() (n int64) {
		for i := range accepted {
			n += accepted[i].Load()
		}
		return n
	}
	f.within(3*time.Minute, "messages are accepted", func() bool { return count() > 20 })
	f.pg.Kill()
	for _, m := range f.relays {
		f.within(3*time.Minute, "not ready", func() bool { return m.status("/readyz") == http.StatusServiceUnavailable })
		f.within(3*time.Minute, "it says that the server only reads", func() bool { return strings.Contains(m.findings(), "read-only standby") })
		if status, _, header := m.postTo(a, "never", ""); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Errorf("a message for the standby: %d, Retry-After %q", status, header.Get("Retry-After"))
		}
	}
	f.must(standby.Promote(f.ctx))
	before := count()
	f.within(3*time.Minute, "messages are accepted again", func() bool { return count() > before+20 })
	over.Store(true)
	senders.Wait()
	f.within(2*time.Minute, "nothing waits any more", func() bool { return !f.pending() })
	want := map[int]int{}
	for i := range accepted {
		want[i] = int(accepted[i].Load())
	}
	f.wantInOrder(stub.bodies(a.room), want)

	delivering := f.delivers(nil)
	for _, m := range f.relays {
		want := "relay_delivering 0"
		if m == delivering {
			want = "relay_delivering 1"
		}
		f.within(3*time.Minute, want, func() bool { return strings.Contains(m.metrics(), "\n"+want+"\n") })
	}
}
