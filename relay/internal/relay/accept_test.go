package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/store"
)

var ctx = context.Background()

func p[T any](v T) *T { return &v }

// refusal returns the refusal in err; an empty one for nil.
func refusal(err error) Error {
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
		{"huge extras", AcceptRequest{Token: token, Message: "x", Extras: json.RawMessage(strings.Repeat(" ", maxExtras+1))}, KindTooLarge, "extras"},
		{"lowest priority", AcceptRequest{Token: token, Message: "x", Priority: p(-2), NativeScale: true}, "", ""},
		{"priority too low", AcceptRequest{Token: token, Message: "x", Priority: p(-3), NativeScale: true}, KindInvalid, "priority"},
		{"priority too high", AcceptRequest{Token: token, Message: "x", Priority: p(3), NativeScale: true}, KindInvalid, "priority"},
		{"odd key", AcceptRequest{Token: token, Message: "x", IdempotencyKey: "a\nb"}, KindInvalid, "Idempotency-Key"},
		{"long key", AcceptRequest{Token: token, Message: "x", IdempotencyKey: strings.Repeat("k", 256)}, KindInvalid, "Idempotency-Key"},
	}
	for _, test := range tests {
		_, err := r.Accept(ctx, test.req)
		if e := refusal(err); e.Kind != test.kind || e.Field != test.field {
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

func TestPriorityScale(t *testing.T) {
	native := map[int]int{-2: -2, -1: -1, 0: 0, 1: 1, 2: 2}
	gotify := map[int]int{-5: -1, 0: 0, 1: -1, 3: -1, 4: 0, 7: 0, 8: 1, 9: 1, 10: 2, 99: 2}
	tests := []struct {
		scale  Scale
		native bool
		want   map[int]int
	}{
		{ScaleAuto, true, native},
		{ScaleAuto, false, gotify},
		{ScaleNative, false, native},
		{ScaleNative, true, native},
		{ScaleGotify, true, gotify},
		{ScaleGotify, false, gotify},
	}
	for _, test := range tests {
		app := &store.Application{PriorityScale: string(test.scale), DefaultPriority: 2}
		for in, want := range test.want {
			if got, err := effectivePriority(app, AcceptRequest{Priority: &in, NativeScale: test.native}); got != want || err != nil {
				t.Errorf("%s, native %v: %d became %d (%v), want %d", test.scale, test.native, in, got, err, want)
			}
		}
		if got, err := effectivePriority(app, AcceptRequest{NativeScale: test.native}); got != 2 || err != nil {
			t.Errorf("%s: the default became %d (%v)", test.scale, got, err)
		}
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
				case KindOf(err) != KindRateLimited || refusal(err).RetryAfter <= 0 || refusal(err).RetryAfter > time.Second:
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

func TestFullOutboxRefuses(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.MaxWaiting = 3 })
	token := r.app("a", "!a:hs").Token
	for range 3 {
		r.send(token, "x")
	}
	_, err := r.Accept(ctx, AcceptRequest{Token: token, Message: "x"})
	if KindOf(err) != KindUnavailable || refusal(err).RetryAfter == 0 {
		t.Errorf("a fourth message: %v", err)
	}
	r.run()
	for range 1000 {
		if _, err = r.Accept(ctx, AcceptRequest{Token: token, Message: "x"}); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("after delivery: %v", err)
}

// TestFullDisk lets the database not grow any more for a while.
func TestFullDisk(t *testing.T) {
	r := newRig(t)
	token := r.app("a", "!a:hs").Token
	r.run()
	r.await(r.send(token, "before"), StateSent)
	pages := func(n int) {
		if err := r.store.Update(ctx, func(tx *store.Tx) error { return tx.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", n)).Error }); err != nil {
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

func TestSecondRelayIsRefused(t *testing.T) {
	r := newRig(t)
	if s, err := New(ctx, r.o); err == nil {
		_ = s.Close()
		t.Fatal("a second relay opened the database")
	}
	r.send(r.app("a", "!a:hs").Token, "still works")
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		app := r.app("a", "!a:hs")
		r.hs.script = func(out Outgoing, _ int) *answer { return &answer{store: true, delay: 2 * time.Second} }
		first, second, third := r.send(app.Token, "one"), r.send(app.Token, "two"), r.send(app.Token, "three")
		r.run()
		time.Sleep(time.Second)
		if m, err := r.Cancel(ctx, r.admin, second); err != nil || m.State != StateCancelled {
			t.Errorf("cancel one that waits: %+v, %v", m, err)
		}
		if _, err := r.Cancel(ctx, r.admin, second); KindOf(err) != KindConflict {
			t.Errorf("cancel it again: %v", err)
		}
		sent, err := r.Cancel(ctx, r.admin, first)
		if err != nil || sent.State != StateSent {
			t.Errorf("withdraw one in flight: %+v, %v", sent, err)
		}
		if m, _ := r.Wait(ctx, r.admin, third, time.Minute); m.State != StateSent {
			t.Errorf("the third: %+v", m)
		}
		if m := r.await(first, StateRedacted); m.EventID == "" || !m.SentAt.Equal(sent.SentAt) {
			t.Errorf("redacted: %+v; sent at %v", m, sent.SentAt)
		}
		if got := r.hs.bodies("!a:hs"); !slices.Equal(got, []string{"three"}) {
			t.Errorf("the room has %q", got)
		}
		if m, err := r.Redeliver(ctx, r.admin, second); err != nil || !m.State.Pending() {
			t.Errorf("redeliver the cancelled one: %+v, %v", m, err)
		}
		if m, _ := r.Wait(ctx, r.admin, second, time.Minute); m.State != StateSent {
			t.Errorf("redelivered: %+v", m)
		}
		if _, err := r.Redeliver(ctx, r.admin, second); KindOf(err) != KindConflict {
			t.Errorf("redeliver one that is sent: %v", err)
		}
		if n := r.d.depth.Load(); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

func TestRedeliverBringsTheNextAttemptForward(t *testing.T) {
	tests := map[string]struct {
		fault answer
		want  time.Duration
	}{
		"parked":       {class(ClassPark), time.Second},
		"told to wait": {answer{err: &SendError{Class: ClassWait, RetryAfter: time.Hour}}, time.Hour},
	}
	for name, test := range tests {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.hs.script = func(Outgoing, int) *answer {
				if len(r.hs.times("!a:hs")) == 1 {
					return &test.fault
				}
				return nil
			}
			r.run()
			app := r.app("a", "!a:hs")
			r.send(app.Token, "first")
			id := r.send(app.Token, "second")
			time.Sleep(time.Second)
			if m, err := r.Redeliver(ctx, r.admin, id); err != nil || !m.State.Pending() {
				t.Errorf("%s: %+v, %v", name, m, err)
			}
			began := time.Now()
			m, _ := r.Wait(ctx, r.admin, id, 2*time.Hour)
			if took := time.Since(began); m.State != StateSent || took > test.want || took < test.want-2*time.Second {
				t.Errorf("%s: %q after %v, want %v", name, m.State, took, test.want)
			}
		})
	}
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

func TestMessagesAreListed(t *testing.T) {
	r := newRig(t)
	user := r.user("user")
	mine, err := r.CreateApplication(ctx, user, ApplicationInput{Name: p("mine"), Room: p("!m:hs")})
	if err != nil {
		t.Fatal(err)
	}
	other := r.app("other", "!o:hs")
	fault := class(ClassDead)
	parked := class(ClassPark)
	r.hs.script = func(out Outgoing, _ int) *answer {
		switch {
		case strings.Contains(string(out.Content), "bad"):
			return &fault
		case out.RoomID == "!o:hs":
			return &parked
		}
		return nil
	}
	r.run()
	var ids []int64
	for i := range 7 {
		ids = append(ids, r.send(mine.Token, fmt.Sprintf("100%% of %d", i)))
	}
	bad := r.send(mine.Token, "bad")
	stuck := r.send(other.Token, "stuck")
	r.await(bad, StateDead)
	r.await(stuck, StateBlocked)
	r.await(ids[6], StateSent)
	tests := []struct {
		name string
		v    Viewer
		f    MessageFilter
		want []int64
	}{
		{"a page", r.admin, MessageFilter{Limit: 2}, []int64{stuck, bad}},
		{"the next page", r.admin, MessageFilter{Limit: 2, Before: bad}, []int64{ids[6], ids[5]}},
		{"of a user", user, MessageFilter{Limit: 2}, []int64{bad, ids[6]}},
		{"of an application", Viewer{ApplicationID: other.Application.ID}, MessageFilter{}, []int64{stuck}},
		{"one application", r.admin, MessageFilter{ApplicationID: other.Application.ID}, []int64{stuck}},
		{"somebody else's application", user, MessageFilter{ApplicationID: other.Application.ID}, nil},
		{"dead", r.admin, MessageFilter{States: []State{StateDead}}, []int64{bad}},
		{"blocked or dead", r.admin, MessageFilter{States: []State{StateDead, StateBlocked}}, []int64{stuck, bad}},
		{"on their way, not blocked", r.admin, MessageFilter{States: []State{StateQueued, StateRetryWait}}, nil},
		{"sent", r.admin, MessageFilter{States: []State{StateSent}, Limit: 1}, []int64{ids[6]}},
		{"text", r.admin, MessageFilter{Text: "100% OF 3"}, []int64{ids[3]}},
		{"text with a wildcard", r.admin, MessageFilter{Text: "b_d"}, nil},
		{"later", r.admin, MessageFilter{Since: time.Now().Add(time.Hour)}, nil},
	}
	for _, test := range tests {
		page, err := r.Messages(ctx, test.v, test.f)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		var got []int64
		for _, m := range page.Messages {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if _, err := r.Messages(ctx, Viewer{}, MessageFilter{}); KindOf(err) != KindForbidden {
		t.Errorf("nobody: %v", err)
	}
	if _, err := r.Message(ctx, user, stuck); KindOf(err) != KindNotFound {
		t.Errorf("somebody else's message: %v", err)
	}
	hours, err := r.Hours(ctx, r.admin)
	if err != nil || len(hours) != 24 {
		t.Errorf("%d hours, %v", len(hours), err)
	}
}

func TestCountsSurviveARestart(t *testing.T) {
	r := newRig(t)
	fault := class(ClassDead)
	r.hs.script = func(out Outgoing, _ int) *answer {
		if strings.Contains(string(out.Content), "bad") {
			return &fault
		}
		return nil
	}
	app := r.app("a", "!a:hs")
	r.run()
	for range 20 {
		r.send(app.Token, "good")
	}
	r.await(r.send(app.Token, "bad"), StateDead)
	for range 2 {
		a, err := r.Application(ctx, r.admin, app.Application.ID)
		if err != nil || a.Accepted != 21 || a.Sent != 20 || a.Dead != 1 || a.LastUsed.IsZero() {
			t.Errorf("%+v, %v", a, err)
		}
		r.close()
		r.open()
	}
	hours, err := r.Hours(ctx, r.admin)
	if err != nil {
		t.Fatal(err)
	}
	var sum Hour
	for _, h := range hours {
		sum.Accepted, sum.Sent, sum.Dead = sum.Accepted+h.Accepted, sum.Sent+h.Sent, sum.Dead+h.Dead
	}
	if sum.Accepted != 21 || sum.Sent != 20 || sum.Dead != 1 {
		t.Errorf("the last day: %+v", sum)
	}
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Retention = 10 * time.Hour })
		parked := class(ClassPark)
		r.hs.script = func(out Outgoing, _ int) *answer {
			if out.RoomID == "!p:hs" {
				return &parked
			}
			return nil
		}
		good, bad := r.app("a", "!a:hs"), r.app("b", "!p:hs")
		r.run()
		waiting := r.send(bad.Token, "waits")
		var wg sync.WaitGroup
		for range 2*purgeBatch + 7 {
			wg.Go(func() { r.send(good.Token, "x") })
		}
		wg.Wait()
		time.Sleep(11 * time.Hour)
		young := r.send(good.Token, "young")
		r.await(young, StateSent)
		time.Sleep(houseEvery)
		page, err := r.Messages(ctx, r.admin, MessageFilter{})
		var got []int64
		for _, m := range page.Messages {
			got = append(got, m.ID)
		}
		if err != nil || !slices.Equal(got, []int64{young, waiting}) {
			t.Errorf("after the retention: %v, %v; want %v", got, err, []int64{young, waiting})
		}
		r.close()
		r.open()
		if id := r.send(good.Token, "new"); id <= young {
			t.Errorf("the id %d was used before", id)
		}
	})
}

// TestMemoryIsBounded keeps 20 MiB of messages waiting.
func TestMemoryIsBounded(t *testing.T) {
	r := newRig(t)
	r.hs.probeErr = &SendError{Class: ClassAway}
	r.run()
	for i := range 20 {
		token := r.app(fmt.Sprint(i), fmt.Sprintf("!%d:hs", i)).Token
		for k := range 10 {
			r.send(token, fmt.Sprint(k)+strings.Repeat("x", 100_000))
		}
	}
	if held := r.d.held.Load(); held > headsBudget {
		t.Errorf("%d bytes are held in memory", held)
	}
	r.hs.mu.Lock()
	r.hs.probeErr = nil
	r.hs.mu.Unlock()
	r.Resume()
	for range 2000 {
		if r.d.depth.Load() == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
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
	if held := r.d.held.Load(); held != 0 {
		t.Errorf("%d bytes are still held", held)
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
	var most atomic.Int64
	r.hs.script = func(Outgoing, int) *answer {
		most.Store(max(most.Load(), r.d.held.Load()))
		return &answer{store: true, delay: 2 * time.Millisecond}
	}
	r.hs.mu.Lock()
	r.hs.probeErr = nil
	r.hs.mu.Unlock()
	r.Resume()
	for range 2000 {
		if r.d.depth.Load() == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if held := most.Load(); held > headsBudget+parallel*(headBytes+128<<10) {
		t.Errorf("%d MiB were held in memory", held>>20)
	}
	for i := range rooms {
		if got := r.hs.bodies(fmt.Sprintf("!%d:hs", i)); len(got) != each || got[0][0] != '0' || got[each-1][0] != '0'+each-1 {
			t.Fatalf("room %d has %d events", i, len(got))
		}
	}
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
