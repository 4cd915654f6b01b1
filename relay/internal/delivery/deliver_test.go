package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

func TestMessagesArriveInOrder(t *testing.T) {
	r := relaytest.NewRig(t)
	r.Start()
	a, b := r.NewApp("a", "!a:hs"), r.NewApp("b", "!b:hs")
	var last [2]int64
	var want [2][]string
	for i := range 400 {
		text := fmt.Sprint("message ", i)
		app := []account.IssuedToken{a, b}[i%2]
		last[i%2] = r.Post(app.Token, text)
		want[i%2] = append(want[i%2], text)
	}
	for i, room := range []string{"!a:hs", "!b:hs"} {
		m := r.Await(last[i], post.StateSent)
		if m.EventID == "" || m.Attempts != 1 || m.SentAt().IsZero() {
			t.Errorf("sent message: %+v", m)
		}
		if got := r.HS.Bodies(room); !slices.Equal(got, want[i]) {
			t.Errorf("room %s has %d events, want %d in order:\n%q", room, len(got), len(want[i]), got)
		}
	}
	r.Drained()
	r.Stop()
	if r.HS.TooMany || len(r.HS.Attempts) != 400 {
		t.Errorf("%d attempts for 400 messages, two at once in one room: %v", len(r.HS.Attempts), r.HS.TooMany)
	}
}

// once answers a transaction's first attempts with the given errors, later ones with success.
func once(fail ...relaytest.Answer) func(matrix.Outgoing, int) *relaytest.Answer {
	return func(_ matrix.Outgoing, n int) *relaytest.Answer {
		if n <= len(fail) {
			return &fail[n-1]
		}
		return nil
	}
}

// TestFailures sends three messages whose first fails in some way. Each of the others arrives once and in order; and
// unless the first is given up, so does it.
func TestFailures(t *testing.T) {
	lost := relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "the answer was lost"}, Store: true}
	wait := relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassWait, RetryAfter: 90 * time.Second}}
	tests := []struct {
		name     string
		fail     []relaytest.Answer
		want     post.State
		attempts int
		within   time.Duration
		after    time.Duration
	}{
		{name: "at once", want: post.StateSent, attempts: 1, within: time.Second},
		{name: "a fault", fail: []relaytest.Answer{relaytest.Fails(matrix.ClassRetry)}, want: post.StateSent, attempts: 2, within: 2 * time.Second, after: 250 * time.Millisecond},
		{name: "ten faults", fail: slices.Repeat([]relaytest.Answer{relaytest.Fails(matrix.ClassRetry)}, 10), want: post.StateSent, attempts: 11, within: time.Hour, after: 3 * time.Second},
		{name: "answer lost", fail: []relaytest.Answer{lost}, want: post.StateSent, attempts: 2, within: 2 * time.Second},
		{name: "an unclassified error", fail: []relaytest.Answer{{Err: errors.New("oops")}}, want: post.StateSent, attempts: 2, within: 2 * time.Second},
		{name: "told to wait", fail: []relaytest.Answer{wait, wait}, want: post.StateSent, attempts: 1, within: 182 * time.Second, after: 180 * time.Second},
		{name: "told to wait for no time", fail: []relaytest.Answer{{Err: &matrix.SendError{Class: matrix.ClassWait}}}, want: post.StateSent, attempts: 1, within: 2 * time.Second, after: time.Second},
		{name: "away", fail: []relaytest.Answer{relaytest.Fails(matrix.ClassAway), relaytest.Fails(matrix.ClassAway)}, want: post.StateSent, attempts: 3, within: 10 * time.Second, after: time.Second},
		{name: "relogin", fail: []relaytest.Answer{relaytest.Fails(matrix.ClassRelogin)}, want: post.StateSent, attempts: 1, within: 2 * time.Second},
		{name: "locked", fail: []relaytest.Answer{relaytest.Fails(matrix.ClassLocked)}, want: post.StateSent, attempts: 1, within: 2 * time.Second},
		{name: "invited", fail: []relaytest.Answer{relaytest.Fails(matrix.ClassJoin)}, want: post.StateSent, attempts: 1, within: time.Second},
		{name: "joining does not help", fail: []relaytest.Answer{relaytest.Fails(matrix.ClassJoin), relaytest.Fails(matrix.ClassJoin)}, want: post.StateSent, attempts: 1, within: 30 * time.Minute, after: 5 * time.Minute},
		{name: "refused", fail: []relaytest.Answer{relaytest.Fails(matrix.ClassDead)}, want: post.StateDead, attempts: 1, within: time.Second},
		{name: "blocked", fail: []relaytest.Answer{relaytest.Fails(matrix.ClassBlock)}, want: post.StateSent, attempts: 1, within: 30 * time.Minute, after: 5 * time.Minute},
		{name: "too large once", fail: []relaytest.Answer{relaytest.Fails(matrix.ClassTooLarge)}, want: post.StateSent, attempts: 1, within: time.Second},
		{name: "too large three times", fail: slices.Repeat([]relaytest.Answer{relaytest.Fails(matrix.ClassTooLarge)}, 3), want: post.StateDead, attempts: 1, within: time.Second},
		{name: "device changed", fail: []relaytest.Answer{relaytest.Fails(matrix.ClassReconcile)}, want: post.StateSent, attempts: 1, within: time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t)
				script := once(test.fail...)
				first := ""
				r.HS.Script = func(out matrix.Outgoing, n int) *relaytest.Answer {
					if first == "" {
						first = out.TxnID
					}
					if out.TxnID == first {
						return script(out, n)
					}
					return nil
				}
				app := r.NewApp("a", "!a:hs")
				ids := []int64{r.Post(app.Token, "one"), r.Post(app.Token, "two"), r.Post(app.Token, "three")}
				began := time.Now()
				r.Start()
				m, err := r.Wait(ctx, r.Admin, ids[2], 24*time.Hour)
				took := time.Since(began)
				if err != nil || m.State != post.StateSent {
					t.Fatalf("the last message: %+v, %v", m, err)
				}
				if took < test.after || took > test.within {
					t.Errorf("took %v, want %v to %v", took, test.after, test.within)
				}
				if m := r.Stored(ids[0]); m.State != test.want || m.Attempts != test.attempts {
					t.Errorf("the first is %q after %d attempts, want %q after %d; %+v", m.State, m.Attempts, test.want, test.attempts, m)
				}
				want := []string{"one", "two", "three"}
				if test.want != post.StateSent {
					want = want[1:]
				}
				if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, want) {
					t.Errorf("the room has %q, want %q", got, want)
				}
				r.Drained()
				if st := r.Status(ctx); st.Waiting != 0 || st.Blocked != 0 || st.Paused != "" {
					t.Errorf("status at the end: %+v", st)
				}
			})
		})
	}
}

func TestABrokenRoomDelaysNoOther(t *testing.T) {
	for _, fault := range []relaytest.Answer{relaytest.Fails(matrix.ClassBlock), relaytest.Fails(matrix.ClassRetry), {Err: &matrix.SendError{Class: matrix.ClassWait, RetryAfter: time.Hour}}, {Store: true, Delay: time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			r := relaytest.NewRig(t)
			r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
				if out.RoomID == "!a:hs" {
					return &fault
				}
				return nil
			}
			r.Start()
			a, b := r.NewApp("a", "!a:hs"), r.NewApp("b", "!b:hs")
			began := time.Now()
			r.Post(a.Token, "never")
			time.Sleep(time.Second)
			for i := range 50 {
				r.Post(a.Token, "never")
				id := r.Post(b.Token, fmt.Sprint(i))
				if m, err := r.Wait(ctx, r.Admin, id, time.Minute); err != nil || m.State != post.StateSent {
					t.Fatalf("%+v, %v", m, err)
				}
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the good room took %v beside %+v", took, fault)
			}
			r.HS.Script = nil
		})
	}
}

func TestManyFailingRoomsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		fault := relaytest.Fails(matrix.ClassRetry)
		r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer { return &fault }
		r.Start()
		for _, room := range []string{"!a:hs", "!b:hs", "!c:hs"} {
			r.Post(r.NewApp(room, room).Token, "x")
		}
		synctest.Wait()
		if st := r.Status(ctx); st.Paused == "" {
			t.Error("three rooms in a row failed and nothing pauses")
		}
		r.HS.Do(func() { r.HS.Script = nil })
		time.Sleep(time.Minute)
		if st := r.Status(ctx); st.Paused != "" || st.Waiting != 0 {
			t.Errorf("after it came back: %+v", st)
		}
	})
}

// TestRateLimitOfTheAccount lets a homeserver take ten events and then one in five seconds, for all rooms together, as
// Synapse does.
func TestRateLimitOfTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		const burst, interval = 10, 5 * time.Second
		whole := time.Now() // when it would take a burst again; durations, for the rounding of a fraction refuses an attempt in time
		var early int
		until := map[string]time.Time{}
		r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
			r.HS.Mu.Lock()
			defer r.HS.Mu.Unlock()
			now := time.Now()
			if now.Before(until[out.RoomID]) {
				early++
			}
			if whole.Before(now) {
				whole = now
			}
			wait := whole.Sub(now) - (burst-1)*interval
			if wait <= 0 {
				whole = whole.Add(interval)
				return nil
			}
			until[out.RoomID] = now.Add(wait)
			return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassWait, RetryAfter: wait}}
		}
		r.Start()
		for i := range 4 {
			app := r.NewApp(fmt.Sprint(i), fmt.Sprintf("!%d:hs", i))
			for k := range 10 {
				r.Post(app.Token, fmt.Sprint(k))
			}
		}
		time.Sleep(20 * time.Second)
		if s := r.Status(ctx).RateLimited(); !strings.HasPrefix(s, "Waiting for the homeserver's rate limit: 2") || !strings.Contains(s, " messages, about 1") {
			t.Errorf("after 20 s the status says %q", s)
		}
		time.Sleep(4 * time.Minute)
		if s := r.Status(ctx).RateLimited(); s != "" {
			t.Errorf("with an empty outbox the status says %q", s)
		}
		if st := r.Status(ctx); st.Waiting != 0 {
			t.Errorf("%d messages wait after four minutes", st.Waiting)
		}
		if early > 0 {
			t.Errorf("%d attempts before the time that the homeserver had told", early)
		}
		for i := range 4 {
			if got := strings.Join(r.HS.Bodies(fmt.Sprintf("!%d:hs", i)), " "); got != "0 1 2 3 4 5 6 7 8 9" {
				t.Errorf("room %d: %s", i, got)
			}
		}
		r.HS.Mu.Lock()
		defer r.HS.Mu.Unlock()
		if n := len(r.HS.Attempts); n > 200 {
			t.Errorf("%d attempts for 40 messages", n)
		}
	})
}

// A blocked room is tried again once its cause may be gone.
func TestBlockedRoom_GoesOn(t *testing.T) {
	for _, event := range []matrix.Event{matrix.Joined{Room: "!a:hs"}, matrix.PowerLevels{Room: "!a:hs"}, matrix.Tombstone{Room: "!a:hs"}} {
		t.Run(fmt.Sprintf("%T", event), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { goesOn(t, event) }) })
	}
}

func goesOn(t *testing.T, event matrix.Event) {
	r := relaytest.NewRig(t)
	fault := relaytest.Fails(matrix.ClassJoin)
	r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer { return &fault }
	r.HS.OnJoin = func(string) error { return &matrix.SendError{Class: matrix.ClassBlock, Reason: "not invited"} }
	r.Start()
	id := r.Post(r.NewApp("a", "!a:hs").Token, "x")
	synctest.Wait()
	if m := r.Stored(id); m.State != post.StateBlocked || m.Error != "because of join" {
		t.Errorf("not in the room: %+v", m)
	}
	rooms, _ := r.Rooms(context.Background(), r.Admin)
	if len(rooms) != 1 || rooms[0].Blocked != "because of join" || rooms[0].Waiting != 1 {
		t.Errorf("rooms: %+v", rooms)
	}
	r.HS.Script = nil
	r.Delivery().Handle(event)
	if m, _ := r.Wait(ctx, r.Admin, id, time.Second); m.State != post.StateSent {
		t.Errorf("after the event: %+v", m)
	}
}

// A message can be withdrawn from a room that was encrypted since: removals are not encrypted. What waits stays.
func TestCancel_RoomIsEncryptedMeanwhile_RemovesTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.Start()
		app := r.NewApp("a", "!a:hs")
		sent := r.Post(app.Token, "too much")
		r.Await(sent, post.StateSent)
		r.Delivery().Handle(matrix.Encrypted{Room: "!a:hs"})
		waits := r.Post(app.Token, "secret")
		time.Sleep(time.Hour)
		r.Withdraw(sent)
		r.Await(sent, post.StateRedacted)
		if m := r.Stored(waits); m.State != post.StateBlocked {
			t.Errorf("the message that waits is %s", m.State)
		}
		if n := len(r.HS.Times("!a:hs")); n != 1 || len(r.HS.Bodies("!a:hs")) != 0 {
			t.Errorf("%d attempts; in the room: %q", n, r.HS.Bodies("!a:hs"))
		}
	})
}

func TestEncryptedRoomGetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Delivery.MaxAge = 6 * time.Hour })
		r.Start()
		app := r.NewApp("a", "!a:hs")
		r.Delivery().Handle(matrix.Encrypted{Room: "!a:hs"})
		id := r.Post(app.Token, "secret")
		time.Sleep(4 * time.Hour)
		if m := r.Stored(id); m.State != post.StateBlocked || !strings.Contains(m.Error, "encrypted") {
			t.Errorf("in an encrypted room: %+v", m)
		}
		if n := len(r.HS.Times("!a:hs")); n != 0 {
			t.Errorf("%d attempts in an encrypted room", n)
		}
		r.Restart()
		time.Sleep(time.Hour)
		if n := len(r.HS.Times("!a:hs")); n != 0 {
			t.Errorf("%d attempts in an encrypted room after a restart", n)
		}
		time.Sleep(2 * time.Hour)
		if m := r.Stored(id); m.State != post.StateDead {
			t.Errorf("after seven hours: %+v", m)
		}
	})
}

func TestUpgradedRoomTakesTheMessagesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
			if out.RoomID == "!a:hs" {
				a := relaytest.Fails(matrix.ClassBlock)
				return &a
			}
			return nil
		}
		r.Start()
		app := r.NewApp("a", "!a:hs")
		id := r.Post(app.Token, "x")
		synctest.Wait()
		r.Delivery().Handle(matrix.Replaced{Old: "!a:hs", New: "!new"})
		if m, _ := r.Wait(ctx, r.Admin, id, time.Second); m.State != post.StateSent || m.RoomID != "!new" {
			t.Errorf("after the upgrade: %+v", m)
		}
		if a, _ := r.Application(context.Background(), r.Admin, app.Application.ID); a.Room != "!new" {
			t.Errorf("the application still names %q", a.Room)
		}
	})
}

func TestTooOldIsDead(t *testing.T) {
	fault := relaytest.Fails(matrix.ClassRetry)
	blocked := relaytest.Fails(matrix.ClassBlock)
	for name, setup := range map[string]func(*relaytest.Homeserver){
		"failing": func(h *relaytest.Homeserver) {
			h.Script = func(matrix.Outgoing, int) *relaytest.Answer { return &fault }
		},
		"blocked": func(h *relaytest.Homeserver) {
			h.Script = func(matrix.Outgoing, int) *relaytest.Answer { return &blocked }
		},
		"away": func(h *relaytest.Homeserver) { h.ProbeErr = &matrix.SendError{Class: matrix.ClassAway, Reason: "gone"} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t, func(o *service.Options) { o.Delivery.MaxAge = 6 * time.Hour })
				setup(r.HS)
				r.Start()
				app := r.NewApp("a", "!a:hs")
				id, second := r.Post(app.Token, "x"), r.Post(app.Token, "y")
				time.Sleep(5 * time.Hour)
				late := r.Post(app.Token, "late")
				if m := r.Stored(id); !m.State.Pending() {
					t.Errorf("after five hours: %+v", m)
				}
				time.Sleep(2 * time.Hour)
				for _, id := range []int64{id, second} {
					if m := r.Stored(id); m.State != post.StateDead || !strings.Contains(m.Error, "6h") {
						t.Errorf("after seven hours: %+v", m)
					}
				}
				if m := r.Stored(late); !m.State.Pending() {
					t.Errorf("a later one: %+v", m)
				}
				r.HS.Do(func() { r.HS.Script, r.HS.ProbeErr = nil, nil })
				if m, _ := r.Wait(ctx, r.Admin, late, time.Hour); m.State != post.StateSent {
					t.Errorf("the later one at the end: %+v", m)
				}
				r.Drained()
				if a, err := r.Application(ctx, r.Admin, app.Application.ID); err != nil || a.Dead != 2 || a.Sent != 1 {
					t.Errorf("%d are counted as given up, %d as sent, %v", a.Dead, a.Sent, err)
				}
			})
		})
	}
}
