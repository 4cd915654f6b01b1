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
	if h.comparer.queue.length() != 0 || len(h.comparer.queue.fresh.hosts)+len(h.comparer.queue.suspects.names) != 0 {
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

// Whoever has the fewest calls beside them goes first, and of those that fill the queue
// one is dropped.
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
	if got := strings.Join(order, " "); got != "cz ax2 ax1 ax1 by by" {
		t.Errorf("order %s", got)
	}
	if q.length() != 0 || len(q.fresh.hosts)+len(q.fresh.names)+len(q.suspects.hosts) != 0 {
		t.Errorf("left: %+v", q)
	}
}

// Of a long name the queue looks at the beginning only: it does so for all that wait, each
// time that somebody comes or goes.
func TestQueue_LongNames(t *testing.T) {
	var q queue
	long := strings.Repeat("x", maxCredentials)
	q.push(&call{host: "a", user: long + "1"})
	q.push(&call{host: "b", user: long + "2", suspect: true})
	for _, c := range []crowd{q.fresh, q.suspects} {
		for name, n := range c.names {
			if len(name) > maxBrakeName || n != 1 {
				t.Errorf("%d calls of a name of %d bytes", n, len(name))
			}
		}
	}
	for range 2 {
		if q.pop(true) == nil {
			t.Error("a call is gone")
		}
	}
	if len(q.fresh.names)+len(q.suspects.names) != 0 {
		t.Errorf("left: %+v", q)
	}
}

// Those who log in for the first time do so before guesses from many addresses at one name
// or at many, and neither the owner of that name nor who has come first waits for ever.
func TestQueue_FirstLoginsBeforeGuesses(t *testing.T) {
	for _, names := range []int{1, 100} {
		var q queue
		for i := range 200 {
			q.push(&call{host: fmt.Sprint("guesser", i%50), user: fmt.Sprint("guessed", i%names)})
		}
		q.push(&call{host: "home", user: "guessed0"})
		for i := range 50 {
			q.push(&call{host: fmt.Sprint("honest", i), user: fmt.Sprint("user", i)})
		}
		honest, owner, oldest := 0, 0, false
		for n := range 60 {
			k := q.pop(true)
			switch {
			case strings.HasPrefix(k.host, "honest"):
				honest++
			case k.host == "home":
				owner = n + 1
			case k.host == "guesser0":
				oldest = true
			}
		}
		if honest < 50 || owner == 0 || !oldest {
			t.Errorf("%d names: of the first 60 turns honest users had %d, the owner had turn %d, the oldest one had one: %v", names, honest, owner, oldest)
		}
	}
}
