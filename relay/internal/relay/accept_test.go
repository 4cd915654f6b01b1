package relay

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/store"
)

var ctx = context.Background()

func p[T any](v T) *T { return &v }

// refused returns the refusal in err; an empty one for nil.
func refused(err error) Error {
	var e *Error
	if errors.As(err, &e) {
		return *e
	}
	return Error{Kind: KindOf(err)}
}

func TestAcceptChecks(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits = Limits{MaxMessage: 100, MaxTitle: 10} })
	token := r.app("a", "!a:hs").Token
	tests := []struct {
		name  string
		req   AcceptRequest
		kind  Kind
		field string
	}{
		{"good", AcceptRequest{Token: token, Message: "x"}, "", ""},
		{"no token", AcceptRequest{Message: "x"}, KindUnauthorized, "token"},
		{"unknown token", AcceptRequest{Token: "A123", Message: "x"}, KindUnauthorized, "token"},
		{"space around the token", AcceptRequest{Token: token + " ", Message: "x"}, KindUnauthorized, "token"},
		{"huge token", AcceptRequest{Token: strings.Repeat("A", 1<<20), Message: "x"}, KindUnauthorized, "token"},
		{"no message", AcceptRequest{Token: token}, KindInvalid, "message"},
		{"blank message", AcceptRequest{Token: token, Message: " \n\t"}, KindInvalid, "message"},
		{"only a NUL", AcceptRequest{Token: token, Message: "\x00"}, KindInvalid, "message"},
		{"longest message", AcceptRequest{Token: token, Message: strings.Repeat("x", 100)}, "", ""},
		{"too long", AcceptRequest{Token: token, Message: strings.Repeat("x", 101)}, KindTooLarge, "message"},
		{"title too long", AcceptRequest{Token: token, Message: "x", Title: strings.Repeat("x", 11)}, KindTooLarge, "title"},
		{"huge extras", AcceptRequest{Token: token, Message: "x", Extras: json.RawMessage(strings.Repeat(" ", 64<<10+1))}, KindTooLarge, "extras"},
		{"lowest priority", AcceptRequest{Token: token, Message: "x", Priority: p(-2), NativeScale: true}, "", ""},
		{"priority too low", AcceptRequest{Token: token, Message: "x", Priority: p(-3), NativeScale: true}, KindInvalid, "priority"},
		{"priority too high", AcceptRequest{Token: token, Message: "x", Priority: p(3), NativeScale: true}, KindInvalid, "priority"},
		{"odd key", AcceptRequest{Token: token, Message: "x", IdempotencyKey: "a\nb"}, KindInvalid, "Idempotency-Key"},
		{"long key", AcceptRequest{Token: token, Message: "x", IdempotencyKey: strings.Repeat("k", 256)}, KindInvalid, "Idempotency-Key"},
	}
	for _, test := range tests {
		_, err := r.Accept(ctx, test.req)
		if e := refused(err); e.Kind != test.kind || e.Field != test.field {
			t.Errorf("%s: %v (kind %q, field %q), want %q, %q", test.name, err, e.Kind, e.Field, test.kind, test.field)
		}
	}
}

func TestAcceptKeepsTextThatCanBeSent(t *testing.T) {
	r := newRig(t)
	token := r.app("a", "!a:hs").Token
	a, err := r.Accept(ctx, AcceptRequest{Token: token, Title: "t\x00", Message: "a\xff\x00b", Extras: json.RawMessage(`{"a":1}`), ContentType: "Text/Plain; charset=utf-8"})
	if err != nil {
		t.Fatal(err)
	}
	m := r.message(a.ID)
	if m.Body != "a\uFFFDb" || m.Title != "t" || string(m.Extras) != `{"a":1}` || m.ContentType != "text/plain" {
		t.Errorf("stored: %+v", m)
	}
}

func TestIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		one, two := r.app("a", "!a:hs"), r.app("b", "!b:hs")
		req := AcceptRequest{Token: one.Token, Message: "x", IdempotencyKey: "k", Priority: p(1), NativeScale: true}
		var mu sync.Mutex
		ids := map[int64]int{}
		fresh := 0
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				a, err := r.Accept(ctx, req)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[a.ID]++
				if !a.Replay {
					fresh++
				}
				if a.Priority != 1 {
					t.Errorf("priority %d", a.Priority)
				}
			})
		}
		wg.Wait()
		if len(ids) != 1 || fresh != 1 {
			t.Errorf("fifty requests at once with one key: ids %v, %d of them fresh", ids, fresh)
		}
		other := req
		other.Message = "y"
		if _, err := r.Accept(ctx, other); KindOf(err) != KindConflict {
			t.Errorf("another message under the key: %v", err)
		}
		other = req
		other.Priority = nil
		if _, err := r.Accept(ctx, other); KindOf(err) != KindConflict {
			t.Errorf("another priority under the key: %v", err)
		}
		other = req
		other.Token = two.Token
		if a, err := r.Accept(ctx, other); err != nil || a.Replay {
			t.Errorf("another application's key: %+v, %v", a, err)
		}
		r.run()
		var id int64
		for id = range ids {
		}
		r.await(id, StateSent)
		r.close()
		time.Sleep(6 * 24 * time.Hour)
		r.open()
		r.run()
		if a, err := r.Accept(ctx, req); err != nil || !a.Replay || a.ID != id || a.State != StateSent || a.EventID == "" {
			t.Errorf("six days and a restart later: %+v, %v", a, err)
		}
		if got := r.hs.bodies("!a:hs"); !slices.Equal(got, []string{"x"}) {
			t.Errorf("the room has %q", got)
		}
		time.Sleep(25 * time.Hour)
		if a, err := r.Accept(ctx, req); err != nil || a.Replay {
			t.Errorf("eight days later: %+v, %v", a, err)
		}
	})
}

func TestRateLimitOfAnApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Limits = Limits{RatePerMinute: 60, Burst: 5} })
		a, b := r.app("a", "!a:hs"), r.app("b", "!b:hs")
		send := func(token string, n int) (accepted int) {
			for range n {
				_, err := r.Accept(ctx, AcceptRequest{Token: token, Message: "x"})
				switch {
				case err == nil:
					accepted++
				case KindOf(err) != KindRateLimited || refused(err).RetryAfter <= 0 || refused(err).RetryAfter > time.Second:
					t.Errorf("refused with %+v", err)
				}
			}
			return accepted
		}
		if n := send(a.Token, 20); n != 5 {
			t.Errorf("%d at once, want 5", n)
		}
		if n := send(b.Token, 20); n != 5 {
			t.Errorf("another application: %d at once, want 5", n)
		}
		time.Sleep(3 * time.Second)
		if n := send(a.Token, 20); n != 3 {
			t.Errorf("%d after three seconds, want 3", n)
		}
		if _, err := r.UpdateApplication(ctx, r.admin, b.Application.ID, ApplicationInput{RateLimit: p(600)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n := send(b.Token, 20); n < 10 {
			t.Errorf("%d with the application's own rate, want 10 or more", n)
		}
	})
}

// What is not stored takes nothing of the application's rate.
func TestRateLimit_RefusedForAnotherReason_TakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Limits = Limits{RatePerMinute: 60, Burst: 2, MaxWaiting: 1} })
		token := r.app("a", "!a:hs").Token
		r.send(token, "x")
		for range 20 {
			if _, err := r.Accept(ctx, AcceptRequest{Token: token, Message: "x"}); KindOf(err) != KindUnavailable {
				t.Fatalf("the outbox is full: %v", err)
			}
		}
		r.exec(`UPDATE outbox SET state = 'dead', final_at = 1`)
		time.Sleep(11 * time.Second) // until it is counted again
		if err := r.store.LimitPages(ctx, 1); err != nil {
			t.Fatal(err)
		}
		full := strings.Repeat("x", 100_000)
		for range 20 {
			if _, err := r.Accept(ctx, AcceptRequest{Token: token, Message: full}); KindOf(err) != KindUnavailable {
				t.Fatalf("the disk is full: %v", err)
			}
		}
		if err := r.store.LimitPages(ctx, 1<<30); err != nil {
			t.Fatal(err)
		}
		r.send(token, "x")
	})
}

func TestFullOutboxRefuses(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.MaxWaiting = 3 })
	token := r.app("a", "!a:hs").Token
	for range 3 {
		r.send(token, "x")
	}
	_, err := r.Accept(ctx, AcceptRequest{Token: token, Message: "x"})
	if KindOf(err) != KindUnavailable || refused(err).RetryAfter == 0 {
		t.Errorf("a fourth message: %v", err)
	}
	r.run()
	r.eventually("there is room after delivery", func() bool {
		_, err = r.Accept(ctx, AcceptRequest{Token: token, Message: "x"})
		return err == nil
	})
}

// TestFullDisk lets the database not grow any more for a while.
func TestFullDisk(t *testing.T) {
	r := newRig(t)
	token := r.app("a", "!a:hs").Token
	r.run()
	r.await(r.send(token, "before"), StateSent)
	pages := func(n int) {
		if err := r.store.LimitPages(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	pages(1)
	refused := 0
	for range 3 {
		if _, err := r.Accept(ctx, AcceptRequest{Token: token, Message: strings.Repeat("full ", 20_000)}); KindOf(err) == KindUnavailable {
			refused++
		}
	}
	if refused == 0 {
		t.Fatal("nothing was refused though the disk is full")
	}
	pages(1 << 30)
	r.await(r.send(token, "after"), StateSent)
	var texts []string
	for _, body := range r.hs.bodies("!a:hs") {
		texts = append(texts, body[:4])
	}
	if len(texts) < 2 || texts[0] != "befo" || texts[len(texts)-1] != "afte" {
		t.Errorf("events: %q", texts)
	}
}

// Any number of relays may use one database of PostgreSQL, but only one a file.
func testSecondRelayIsRefused(t *testing.T) {
	r := newRig(t)
	if db, err := store.Open(ctx, r.path); err == nil {
		_ = db.Close()
		t.Fatal("a second relay opened the database")
	}
	r.send(r.app("a", "!a:hs").Token, "still works")
}

func TestWaitEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hs.script = func(Outgoing, int) *answer { return &answer{store: true, delay: 3 * time.Second} }
		r.run()
		id := r.send(r.app("a", "!a:hs").Token, "x")
		began := time.Now()
		if m, err := r.Wait(ctx, r.admin, id, time.Second); err != nil || m.State != StateQueued || time.Since(began) != time.Second {
			t.Errorf("%+v, %v after %v", m, err, time.Since(began))
		}
		if m, err := r.Wait(ctx, r.admin, id, time.Minute); err != nil || m.State != StateSent || time.Since(began) > 4*time.Second {
			t.Errorf("%+v, %v after %v", m, err, time.Since(began))
		}
	})
}

func TestAcceptForAnApplicationOfOnesOwn(t *testing.T) {
	r := newRig(t)
	anna := r.user("anna")
	app := r.app("a", "!a:hs").Application
	if _, err := r.AcceptFor(ctx, anna, app.ID, AcceptRequest{Message: "x"}); KindOf(err) != KindNotFound {
		t.Errorf("somebody else's: %v", err)
	}
	if a, err := r.AcceptFor(ctx, r.admin, app.ID, AcceptRequest{Message: "x", Priority: p(2), NativeScale: true}); err != nil || a.Priority != 2 {
		t.Errorf("%+v, %v", a, err)
	}
}
