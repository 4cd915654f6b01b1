package e2e

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	fleetRooms   = 8
	fleetSenders = 16
)

// Three relays take messages in behind nginx. The one that delivers is killed, or frozen and thawed after another one has taken
// over, and PostgreSQL is restarted. Each message that was accepted arrives once, and each sender's in order.
func TestFull_SeveralRelays_DelivererLost_EachMessageOnceAndInOrder(t *testing.T) {
	losses, err := strconv.Atoi(cmp.Or(os.Getenv("SLIPWAY_SOAK_FAILOVERS"), "3"))
	if err != nil {
		t.Fatal(err)
	}
	restartEvery := max(3, losses/5)
	stub := newStub(t)
	f := newFleetOfItsOwn(t, stub.url, 3)
	for _, m := range f.relays {
		m.start()
	}
	f.delivers(nil)
	var apps [fleetRooms]app
	for i := range apps {
		apps[i] = f.application(fmt.Sprint("room", i), "")
	}
	var over atomic.Bool
	var senders sync.WaitGroup
	var accepted [fleetSenders]int
	for i := range accepted {
		senders.Go(func() {
			for n := 0; !over.Load() && f.ctx.Err() == nil; n++ {
				f.insist(apps[i%fleetRooms], fmt.Sprintf("s%d-%d", i, n))
				accepted[i] = n + 1
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	var longest time.Duration
	for n := range losses {
		lost := f.delivers(nil)
		begin := time.Now()
		if n%2 == 0 {
			lost.kill()
		} else {
			lost.signal(syscall.SIGSTOP)
		}
		f.delivers(lost)
		arrived := stub.count()
		f.within(3*time.Minute, "messages arrive again", func() bool { return stub.count() > arrived })
		longest = max(longest, time.Since(begin))
		if n%2 == 0 {
			lost.start()
		} else {
			lost.signal(syscall.SIGCONT)
		}
		if (n+1)%restartEvery == 0 {
			f.restartDatabase((n+1)/restartEvery%2 == 0)
		}
	}
	over.Store(true)
	senders.Wait()
	f.within(2*time.Minute, "nothing waits any more", func() bool { return !f.pending() })
	total := 0
	for i, a := range apps {
		total += f.wantInOrder(stub.bodies(a.room), map[int]int{i: accepted[i], i + fleetRooms: accepted[i+fleetRooms]})
	}
	if promised := 15 * time.Second; os.Getenv("SLIPWAY_SOAK_FAILOVERS") != "" && longest > promised { // on a machine that does nothing else
		t.Errorf("for %v nothing was delivered, %v are promised", longest, promised)
	}
	t.Logf("%d messages, %d relays lost, at most %v without deliveries", total, losses, longest.Round(100*time.Millisecond))
}

// restartDatabase ends PostgreSQL and starts it again, after a while in which nothing can be accepted.
func (f *fleet) restartDatabase(crash bool) {
	f.Helper()
	if crash {
		f.pg.Kill()
	} else {
		f.pg.Stop()
	}
	time.Sleep(2 * time.Second)
	f.must(f.pg.Launch(f.ctx))
	f.delivers(nil)
}

// wantInOrder wants each sender's messages in a room once and in order, and returns how many there are.
func (f *fleet) wantInOrder(bodies []string, want map[int]int) int {
	f.Helper()
	next := map[int]int{}
	for _, body := range bodies {
		var sender, n int
		if _, err := fmt.Sscanf(strings.Replace(body, "-", " ", 1), "s%d %d", &sender, &n); err != nil {
			f.Fatalf("%q: %v", body, err)
		}
		if n != next[sender] {
			f.Fatalf("after message %d of sender %d comes %q", next[sender]-1, sender, body)
		}
		next[sender]++
	}
	for sender, n := range want {
		if next[sender] != n {
			f.Errorf("%d messages of sender %d arrived, %d were accepted", next[sender], sender, n)
		}
	}
	return len(bodies)
}
