package auth

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// The more wrong passwords come from an address, the later they are answered.
func TestBrake(t *testing.T) {
	b, now := newBrake(), time.Now()
	n := 0
	name := func() string { n++; return fmt.Sprint("user", n) }
	for i := range freeFailures {
		if d := b.failed("a", name(), now); d != 0 {
			t.Errorf("failure %d waits %v", i, d)
		}
	}
	if d := b.failed("a", name(), now); d != brakeStep {
		t.Errorf("the next one waits %v", d)
	}
	for range 100 {
		b.failed("a", name(), now)
	}
	if d := b.failed("a", name(), now); d != maxBrake {
		t.Errorf("after many: %v", d)
	}
	if d := b.failed("b", name(), now); d != 0 {
		t.Errorf("another address waits %v", d)
	}
	if d := b.failed("a", name(), now.Add(brakeMemory+time.Second)); d != 0 {
		t.Errorf("after a minute: %v", d)
	}
	for i := range 2 * maxBraked {
		b.failed(fmt.Sprint(i), fmt.Sprint(i), now)
	}
	if len(b.hosts) > maxBraked || len(b.names) > maxBraked {
		t.Errorf("%d addresses and %d names are remembered", len(b.hosts), len(b.names))
	}
}

// Guesses at one name are slowed, however many addresses they come from; and those that
// guess are told from the owner, even if he mistypes.
func TestBrake_OneNameFromManyAddresses(t *testing.T) {
	b, now := newBrake(), time.Now()
	address := func(i int) string { return fmt.Sprint("10.0.0.", i) }
	for i := range freeFailures {
		if d := b.failed(address(i%50), "carl", now); d != 0 {
			t.Errorf("failure %d waits %v", i, d)
		}
	}
	for i := range 200 {
		if d := b.failed(address(i%50), "carl", now); d == 0 {
			t.Errorf("guess %d does not wait", i)
		}
	}
	if d := b.failed(address(50), "carl", now); d != maxBrake {
		t.Errorf("after many: %v", d)
	}
	if d := b.failed(address(51), "dora", now); d != 0 {
		t.Errorf("another name waits %v", d)
	}
	const owner = "192.0.2.1"
	for i := range freeMistakes {
		b.failed(owner, "carl", now)
		if b.suspects(owner, "carl", now) {
			t.Errorf("the owner is suspected after %d mistakes", i+1)
		}
	}
	if !b.suspects(address(1), "carl", now) || b.suspects(address(1), "dora", now) {
		t.Error("who guessed at a name is not told from others")
	}
	if later := now.Add(brakeMemory + time.Second); b.suspects(address(1), "carl", later) {
		t.Error("nothing is forgotten")
	}
}

// Of a long name that failed only the beginning stays in memory.
func TestBrake_LongNames(t *testing.T) {
	b, long := newBrake(), strings.Repeat("x", 1<<20)
	b.failed("a", long, time.Now())
	for name := range b.names {
		if len(name) != maxBrakeName || unsafe.StringData(name) == unsafe.StringData(long) {
			t.Errorf("%d bytes are kept, within those of the name", len(name))
		}
	}
}

func TestHostOfAnAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:1234": "192.0.2.1", "192.0.2.1": "192.0.2.1", "[::ffff:192.0.2.1]:5": "192.0.2.1", "@": "@",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "2001:db8:1:2:9::1": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
	} {
		if got := host(addr); got != want {
			t.Errorf("host(%q) = %q, want %q", addr, got, want)
		}
	}
}

// Guesses from fifty addresses at one name do not lock its owner out, neither where he
// was seen before nor elsewhere, and they are slowed.
func TestGuessesFromManyAddresses(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", "secret"))
	h.brake.step = brakeStep
	ctx, cancel := context.WithCancel(t.Context())
	var guesses atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_ = loginFrom(ctx, h, "alice", fmt.Sprint(i, " ", n), fmt.Sprint("10.0.0.", i%50))
				if ctx.Err() == nil {
					guesses.Add(1)
				}
			}
		})
	}
	waitFor(t, func() bool { return guesses.Load() > freeFailures })
	for _, from := range []string{"192.0.2.1", "192.0.2.2", "10.0.0.7"} {
		if err := loginFrom(t.Context(), h, "alice", "secret", from); err != nil {
			t.Errorf("the owner from %s: %v", from, err)
		}
	}
	if err := loginFrom(t.Context(), h, "bob", "secret", "192.0.2.3"); err != nil {
		t.Errorf("another user: %v", err)
	}
	cancel()
	wg.Wait()
	// Each of the 50 guesses a few times, and again after a wait that grows.
	if n := guesses.Load(); n > 500 {
		t.Errorf("%d guesses were answered", n)
	}
}

// Suspects wait for a pause after each of them, others do not, and nobody waits for ever.
func TestComparer_SuspectsPause(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", "secret"))
	for range freeFailures + 1 {
		h.brake.failed("10.0.0.1", "x", time.Now())
	}
	h.comparer.mu.Lock()
	h.comparer.suspectAt = time.Now().Add(time.Hour)
	h.comparer.mu.Unlock()
	suspect := make(chan error, 1)
	go func() { suspect <- loginFrom(t.Context(), h, "bob", "secret", "10.0.0.1") }()
	waitForCalls(t, h, 1)
	if err := loginFrom(t.Context(), h, "alice", "secret", "10.0.0.2"); err != nil {
		t.Error(err)
	}
	select {
	case err := <-suspect:
		t.Errorf("a suspect was compared in the pause: %v", err)
	default:
	}
	h.comparer.mu.Lock()
	h.comparer.suspectAt = time.Time{}
	h.comparer.start()
	h.comparer.mu.Unlock()
	if err := <-suspect; err != nil {
		t.Error(err)
	}
}

func TestQueue_Order(t *testing.T) {
	var q queue
	for i := range 3 * freeFailures { // more at once than people send
		q.push(&call{host: "flood", user: fmt.Sprint(i)})
	}
	if len(q.fresh.calls) != freeFailures || len(q.suspects.calls) != 2*freeFailures {
		t.Errorf("%d and %d suspects", len(q.fresh.calls), len(q.suspects.calls))
	}
	q = queue{}
	for i := range 20 {
		q.push(&call{host: "a", user: "known", known: true})
		q.push(&call{host: fmt.Sprint(i), user: "fresh"})
		q.push(&call{host: "b", user: fmt.Sprint("guess", i), suspect: true})
	}
	var first string
	for range 16 {
		first += q.pop(true).user[:1]
	}
	if first != "kkkkkkkgkkkkkkkg" {
		t.Errorf("order %s", first)
	}
	for k := q.pop(false); k != nil; k = q.pop(false) {
		if k.suspect {
			t.Error("a suspect, though none is allowed")
		}
	}
	if k := q.pop(true); k == nil || !k.suspect || q.length() != 17 {
		t.Errorf("left: %d", q.length())
	}
}
