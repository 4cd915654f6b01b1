package service_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

func TestAcceptChecks(t *testing.T) {
	r := relaytest.NewRig(t, func(o *service.Options) { o.Limits = service.Limits{MaxMessage: 100, MaxTitle: 10} })
	token := r.NewApp("a", "!a:hs").Token
	tests := []struct {
		name  string
		req   post.Draft
		kind  refusal.Kind
		field string
	}{
		{"good", post.Draft{Token: token, Content: post.Content{Body: "x"}}, "", ""},
		{"no token", post.Draft{Content: post.Content{Body: "x"}}, refusal.KindUnauthorized, "token"},
		{"unknown token", post.Draft{Token: "A123", Content: post.Content{Body: "x"}}, refusal.KindUnauthorized, "token"},
		{"space around the token", post.Draft{Token: token + " ", Content: post.Content{Body: "x"}}, refusal.KindUnauthorized, "token"},
		{"huge token", post.Draft{Token: strings.Repeat("A", 1<<20), Content: post.Content{Body: "x"}}, refusal.KindUnauthorized, "token"},
		{"no message", post.Draft{Token: token}, refusal.KindInvalid, "message"},
		{"blank message", post.Draft{Token: token, Content: post.Content{Body: " \n\t"}}, refusal.KindInvalid, "message"},
		{"only a NUL", post.Draft{Token: token, Content: post.Content{Body: "\x00"}}, refusal.KindInvalid, "message"},
		{"longest message", post.Draft{Token: token, Content: post.Content{Body: strings.Repeat("x", 100)}}, "", ""},
		{"too long", post.Draft{Token: token, Content: post.Content{Body: strings.Repeat("x", 101)}}, refusal.KindTooLarge, "message"},
		{"longest title", post.Draft{Token: token, Content: post.Content{Body: "x", Title: strings.Repeat("x", 10)}}, "", ""},
		{"longest extras", post.Draft{Token: token, Content: post.Content{Body: "x", Extras: strings.Repeat(" ", 64<<10)}}, "", ""},
		{"longest key", post.Draft{Token: token, Content: post.Content{Body: "x"}, IdempotencyKey: strings.Repeat("k", 255)}, "", ""},
		{"title too long", post.Draft{Token: token, Content: post.Content{Body: "x", Title: strings.Repeat("x", 11)}}, refusal.KindTooLarge, "title"},
		{"huge extras", post.Draft{Token: token, Content: post.Content{Body: "x", Extras: strings.Repeat(" ", 64<<10+1)}}, refusal.KindTooLarge, "extras"},
		{"lowest priority", post.Draft{Token: token, Content: post.Content{Body: "x"}, Priority: p(-2)}, "", ""},
		{"priority too low", post.Draft{Token: token, Content: post.Content{Body: "x"}, Priority: p(-3)}, refusal.KindInvalid, "priority"},
		{"priority too high", post.Draft{Token: token, Content: post.Content{Body: "x"}, Priority: p(3)}, refusal.KindInvalid, "priority"},
		{"odd key", post.Draft{Token: token, Content: post.Content{Body: "x"}, IdempotencyKey: "a\nb"}, refusal.KindInvalid, "Idempotency-Key"},
		{"long key", post.Draft{Token: token, Content: post.Content{Body: "x"}, IdempotencyKey: strings.Repeat("k", 256)}, refusal.KindInvalid, "Idempotency-Key"},
	}
	for _, test := range tests {
		_, err := r.Accept(ctx, test.req)
		if e := refused(err); e.Kind != test.kind || e.Field != test.field {
			t.Errorf("%s: %v (kind %q, field %q), want %q, %q", test.name, err, e.Kind, e.Field, test.kind, test.field)
		}
	}
}

func TestAcceptKeepsTextThatCanBeSent(t *testing.T) {
	r := relaytest.NewRig(t)
	token := r.NewApp("a", "!a:hs").Token
	a, err := r.Accept(ctx, post.Draft{Token: token, Content: post.Content{Title: "t\x00", Body: "a\xff\x00b", Extras: `{"a":1}`, ContentType: "Text/Plain; charset=utf-8"}})
	if err != nil {
		t.Fatal(err)
	}
	m := r.Stored(a.ID)
	if m.Body != "a\uFFFDb" || m.Title != "t" || m.Extras != `{"a":1}` || m.ContentType != "text/plain" {
		t.Errorf("stored: %+v", m)
	}
}

func TestIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		one, two := r.NewApp("a", "!a:hs"), r.NewApp("b", "!b:hs")
		req := post.Draft{Token: one.Token, Content: post.Content{Body: "x"}, IdempotencyKey: "k", Priority: p(1)}
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
		other.Body = "y"
		if _, err := r.Accept(ctx, other); refusal.KindOf(err) != refusal.KindConflict {
			t.Errorf("another message under the key: %v", err)
		}
		other = req
		other.Priority = nil
		if _, err := r.Accept(ctx, other); refusal.KindOf(err) != refusal.KindConflict {
			t.Errorf("another priority under the key: %v", err)
		}
		other = req
		other.Token = two.Token
		if a, err := r.Accept(ctx, other); err != nil || a.Replay {
			t.Errorf("another application's key: %+v, %v", a, err)
		}
		r.Start()
		var id int64
		for id = range ids {
		}
		r.Await(id, post.StateSent)
		r.Shutdown()
		time.Sleep(6 * 24 * time.Hour)
		r.Open()
		r.Start()
		if a, err := r.Accept(ctx, req); err != nil || !a.Replay || a.ID != id || a.State != post.StateSent || a.EventID == "" {
			t.Errorf("six days and a restart later: %+v, %v", a, err)
		}
		if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"x"}) {
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
		r := relaytest.NewRig(t, func(o *service.Options) { o.Limits = service.Limits{RatePerMinute: 60, Burst: 5} })
		a, b := r.NewApp("a", "!a:hs"), r.NewApp("b", "!b:hs")
		send := func(token string, n int) (accepted int) {
			for range n {
				_, err := r.Accept(ctx, post.Draft{Token: token, Content: post.Content{Body: "x"}})
				switch {
				case err == nil:
					accepted++
				case refusal.KindOf(err) != refusal.KindRateLimited || refused(err).RetryAfter <= 0 || refused(err).RetryAfter > time.Second:
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
		r.Set(b.Application.ID, account.ApplicationInput{RateLimit: p(600)})
		time.Sleep(time.Second)
		if n := send(b.Token, 20); n < 10 {
			t.Errorf("%d with the application's own rate, want 10 or more", n)
		}
	})
}

// What is not stored takes nothing of the application's rate.
func TestRateLimit_RefusedForAnotherReason_TakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Limits = service.Limits{RatePerMinute: 60, Burst: 2, MaxWaiting: 1} })
		token := r.NewApp("a", "!a:hs").Token
		r.Post(token, "x")
		for range 20 { // the application's share as well
			if _, err := r.Accept(ctx, post.Draft{Token: token, Content: post.Content{Body: "x"}}); refusal.KindOf(err) != refusal.KindUnavailable {
				t.Fatalf("the outbox is full: %v", err)
			}
		}
		r.Exec(`UPDATE outbox SET state = 'dead', final_at = 1`)
		time.Sleep(time.Second) // until it is counted again
		r.FillDisk(true)
		full := strings.Repeat("x", 100_000)
		for range 20 {
			if _, err := r.Accept(ctx, post.Draft{Token: token, Content: post.Content{Body: full}}); refusal.KindOf(err) != refusal.KindUnavailable {
				t.Fatalf("the disk is full: %v", err)
			}
		}
		r.FillDisk(false)
		r.Post(token, "x")
	})
}

func TestFullOutboxRefuses(t *testing.T) {
	r := relaytest.NewRig(t, func(o *service.Options) { o.Limits.MaxWaiting = 3 })
	token := r.NewApp("a", "!a:hs").Token
	for _, token := range []string{token, token, r.NewApp("b", "!b:hs").Token} {
		if r.Full(ctx) {
			t.Error("it is full too early")
		}
		r.Post(token, "x")
	}
	_, err := r.Accept(ctx, post.Draft{Token: r.NewApp("c", "!c:hs").Token, Content: post.Content{Body: "x"}}) // of an application without a share yet
	if refusal.KindOf(err) != refusal.KindUnavailable || refused(err).RetryAfter == 0 || !r.Full(ctx) {
		t.Errorf("a fourth message: %v", err)
	}
	r.Start()
	r.Eventually("there is room after delivery", func() bool {
		_, err = r.Accept(ctx, post.Draft{Token: token, Content: post.Content{Body: "x"}})
		return err == nil
	})
}

// One application leaves others room, also with delayed messages.
func TestFullOutbox_ShareOfAnApplication(t *testing.T) {
	r := relaytest.NewRig(t, func(o *service.Options) { o.Limits.MaxWaiting = 100 })
	fill := func(name string, want int) {
		t.Helper()
		token, n := r.NewApp(name, "!a:hs").Token, 0
		for ; n <= 100; n++ {
			_, err := r.Accept(ctx, post.Draft{Token: token, Content: post.Content{Body: "x"}, Later: time.Now().Add(time.Hour)})
			if err == nil {
				continue
			}
			if refusal.KindOf(err) != refusal.KindUnavailable || !strings.Contains(err.Error(), "of this application") {
				t.Errorf("%s: %v", name, err)
			}
			break
		}
		if n != want {
			t.Errorf("%s has %d messages accepted, want %d", name, n, want)
		}
	}
	fill("a", 50)
	fill("b", 25)
	fill("c", 13)
	r.Send(post.Draft{Token: r.NewApp("d", "!a:hs").Token, Content: post.Content{Body: "important"}, Priority: p(2)})
}

// TestFullOutbox_ShareOfAnOwner: many applications of one owner leave places for the others.
func TestFullOutbox_ShareOfAnOwner(t *testing.T) {
	r := relaytest.NewRig(t, func(o *service.Options) { o.Limits.MaxWaiting = 100 })
	anna := r.NewUser("anna")
	other, err := r.CreateApplication(ctx, r.Admin, account.ApplicationInput{Name: p("other"), Room: p("!a:hs"), OwnerID: &anna.UserID})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		token := r.NewApp(name, "!a:hs").Token
		for err = nil; err == nil && n <= 100; n++ {
			_, err = r.Accept(ctx, post.Draft{Token: token, Content: post.Content{Body: "x"}, Later: time.Now().Add(time.Hour)})
		}
		n--
	}
	if n != 88 || err == nil || !strings.Contains(err.Error(), "of this owner") {
		t.Errorf("one owner has %d of 100: %v", n, err)
	}
	for range 5 {
		r.Send(post.Draft{Token: other.Token, Content: post.Content{Body: "important"}, Priority: p(2)})
	}
}

func TestWaitEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer {
			return &relaytest.Answer{Store: true, Delay: 3 * time.Second}
		}
		r.Start()
		id := r.Post(r.NewApp("a", "!a:hs").Token, "x")
		began := time.Now()
		if m, err := r.Wait(ctx, r.Admin, id, time.Second); err != nil || m.State != post.StateQueued || time.Since(began) != time.Second {
			t.Errorf("%+v, %v after %v", m, err, time.Since(began))
		}
		if m, err := r.Wait(ctx, r.Admin, id, time.Minute); err != nil || m.State != post.StateSent || time.Since(began) > 4*time.Second {
			t.Errorf("%+v, %v after %v", m, err, time.Since(began))
		}
	})
}

func TestAcceptAll_ApplicationWasDeletedMeanwhile_IsRefused(t *testing.T) {
	r := relaytest.NewRig(t)
	made := r.NewApp("a", "!a:hs")
	app, err := r.Sender(ctx, made.Token)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.DeleteApplication(ctx, r.Admin, made.Application.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := r.AcceptAll(ctx, app, post.Draft{Content: post.Content{Body: "x"}}); refusal.KindOf(err) != refusal.KindUnauthorized {
		t.Errorf("%v, want a refused token", err)
	}
}

func TestAcceptForAnApplicationOfOnesOwn(t *testing.T) {
	r := relaytest.NewRig(t)
	anna := r.NewUser("anna")
	app := r.NewApp("a", "!a:hs").Application
	if _, err := r.AcceptFor(ctx, anna, app.ID, post.Draft{Content: post.Content{Body: "x"}}); refusal.KindOf(err) != refusal.KindNotFound {
		t.Errorf("somebody else's: %v", err)
	}
	if a, err := r.AcceptFor(ctx, r.Admin, app.ID, post.Draft{Content: post.Content{Body: "x"}, Priority: p(2)}); err != nil || a.Priority != 2 {
		t.Errorf("%+v, %v", a, err)
	}
}

// An idempotency key stands for what a request does, not only for its text.
func TestAccept_SameKeyAnotherChange_IsAConflict(t *testing.T) {
	r := relaytest.NewRig(t)
	app := r.NewApp("a", "!a:hs")
	in := post.Draft{Token: app.Token, Content: post.Content{Body: "text"}, IdempotencyKey: "k", Key: "alert", Change: post.Update}
	for range 2 {
		r.Send(in)
	}
	for name, change := range map[string]func(*post.Draft){
		"resolve":      func(in *post.Draft) { in.Change = post.Resolve },
		"another key":  func(in *post.Draft) { in.Key = "other" },
		"in a thread":  func(in *post.Draft) { in.Thread = "t" },
		"another text": func(in *post.Draft) { in.Body = "other" },
	} {
		other := in
		change(&other)
		if _, err := r.Accept(ctx, other); refusal.KindOf(err) != refusal.KindConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{strings.Repeat("x", 256), "a\x00b"} {
		if _, err := r.Accept(ctx, post.Draft{Token: app.Token, Content: post.Content{Body: "text"}, Key: name}); refusal.KindOf(err) != refusal.KindInvalid {
			t.Errorf("the key %.5q: %v", name, err)
		}
	}
}
