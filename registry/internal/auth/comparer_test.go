package auth

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/oci"
)

func TestIdenticalLoginsAreComparedOnce(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"))
	var fresh sync.Map
	hold(h)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			grant, err := h.Authorize(basic("alice", "secret"), Access{Action: Ping})
			fresh.Store(i, grant.Fresh && err == nil)
		})
	}
	waitFor(t, func() bool {
		h.comparer.mu.Lock()
		defer h.comparer.mu.Unlock()
		for _, k := range h.comparer.calls {
			return len(h.comparer.calls) == 1 && k.waiting == 50
		}
		return false
	})
	release(h)
	wg.Wait()
	fresh.Range(func(k, v any) bool {
		if v != true {
			t.Errorf("request %v was not granted", k)
		}
		return true
	})
	if grant, err := h.Authorize(basic("alice", "secret"), Access{Action: Ping}); err != nil || grant.Fresh {
		t.Errorf("not remembered: %+v, %v", grant, err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it never came to that")
}

// hold keeps comparisons waiting until release.
func hold(h *tested) {
	h.comparer.mu.Lock()
	defer h.comparer.mu.Unlock()
	h.comparer.running = h.comparer.workers
}

func release(h *tested) {
	h.comparer.mu.Lock()
	defer h.comparer.mu.Unlock()
	h.comparer.running = 1
	h.comparer.ended.Go(h.comparer.work)
}

// loginFrom tries to log in from an address.
func loginFrom(ctx context.Context, h *tested, user, password, from string) error {
	r := basic(user, password).WithContext(ctx)
	r.RemoteAddr = from + ":1234"
	_, err := h.Authorize(r, Access{Action: Ping})
	return err
}

// waitForCalls waits until so many comparisons are waited for.
func waitForCalls(t *testing.T, h *tested, n int) {
	t.Helper()
	waitFor(t, func() bool {
		h.comparer.mu.Lock()
		defer h.comparer.mu.Unlock()
		return len(h.comparer.calls) == n
	})
}

// A queue that is full loses what has waited longest of those who fill it, and
// nothing is compared for clients that have hung up.
func TestFullQueue(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", "secret"))
	hold(h)
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan error, 2*waitingLimit)
	var wg sync.WaitGroup
	for i := range waitingLimit {
		wg.Go(func() { refused <- loginFrom(ctx, h, "alice", fmt.Sprint(i), "10.0.0.1") })
	}
	waitForCalls(t, h, waitingLimit)
	honest := make(chan error, 1)
	go func() { honest <- loginFrom(t.Context(), h, "bob", "secret", "10.0.0.1") }()
	if got := refusal(t, <-refused); got.Reason != TooManyLogins || got.Err.Code != oci.CodeTooManyRequests || got.RetryAfter == 0 {
		t.Errorf("who fills the queue: %+v", got)
	}
	waitForCalls(t, h, waitingLimit)
	cancel()
	wg.Wait()
	release(h)
	if err := <-honest; err != nil {
		t.Errorf("who came last: %v", err)
	}
	waitForCalls(t, h, 0)
	if n := len(h.comparer.wrong.expires); n != 0 {
		t.Errorf("%d passwords were compared though nobody waited", n)
	}
	if h.comparer.queue.length() != 0 || len(h.comparer.queue.fresh.hosts)+len(h.comparer.queue.suspects.hosts) != 0 {
		t.Errorf("left in the queue: %+v", h.comparer.queue)
	}
	if err := loginFrom(t.Context(), h, "alice", "secret", "10.0.0.1"); err != nil {
		t.Errorf("after the flood: %v", err)
	}
}

// Two hundred clients that guess without end, all from the address of those who
// know their passwords, lock nobody out.
func TestGuessesLockNobodyOut(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", "secret"), line(t, "carl", "secret"), line(t, "dora", "secret"))
	const here = "10.0.0.1"
	if err := loginFrom(t.Context(), h, "alice", "secret", here); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_ = loginFrom(ctx, h, "carl", fmt.Sprint(i, n), here)
			}
		})
	}
	waitForCalls(t, h, 200)
	for _, tt := range []struct{ name, user, from string }{
		{"remembered", "alice", here},
		{"not remembered any more", "alice", here},
		{"for the first time", "bob", here},
		{"for the first time, the name that is guessed", "carl", here},
		{"from elsewhere", "dora", "10.0.0.2"},
	} {
		if tt.name == "not remembered any more" {
			h.comparer.right.mu.Lock()
			clear(h.comparer.right.expires)
			h.comparer.right.mu.Unlock()
		}
		began := time.Now()
		if err := loginFrom(t.Context(), h, tt.user, "secret", tt.from); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		t.Logf("%s: %v", tt.name, time.Since(began))
	}
	cancel()
	wg.Wait()
}

func TestQueueTakesTurns(t *testing.T) {
	var q queue
	for _, k := range []*call{
		{host: "a", user: "x1"}, {host: "a", user: "x1"}, {host: "a", user: "x1"}, {host: "a", user: "x2"}, {host: "b", user: "y"}, {host: "b", user: "y"}, {host: "c", user: "z", known: true},
	} {
		q.push(k)
	}
	if k := q.dropOldest(); k.host != "a" || k.user != "x1" {
		t.Errorf("dropped %s %s", k.host, k.user)
	}
	var order []string
	for k := q.pop(true); k != nil; k = q.pop(true) {
		order = append(order, k.host+k.user)
	}
	if got := strings.Join(order, " "); got != "cz ax2 by ax1 by ax1" && got != "cz by ax2 by ax1 ax1" {
		t.Errorf("order %s", got)
	}
	if q.length() != 0 || len(q.fresh.hosts)+len(q.suspects.hosts) != 0 {
		t.Errorf("left: %+v", q)
	}
}
