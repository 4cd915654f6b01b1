package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
)

func TestMessagesArriveInOrder(t *testing.T) {
	r := newRig(t)
	r.run()
	a, b := r.app("a", "!a:hs"), r.app("b", "!b:hs")
	var last [2]int64
	var want [2][]string
	for i := range 400 {
		text := fmt.Sprint("message ", i)
		app := []IssuedToken{a, b}[i%2]
		last[i%2] = r.send(app.Token, text)
		want[i%2] = append(want[i%2], text)
	}
	for i, room := range []string{"!a:hs", "!b:hs"} {
		m := r.await(last[i], StateSent)
		if m.EventID == "" || m.Attempts != 1 || m.SentAt.IsZero() {
			t.Errorf("sent message: %+v", m)
		}
		if got := r.hs.bodies(room); !slices.Equal(got, want[i]) {
			t.Errorf("room %s has %d events, want %d in order:\n%q", room, len(got), len(want[i]), got)
		}
	}
	if r.hs.tooMany {
		t.Error("two events were in flight in one room")
	}
	r.drained()
}

// once answers a transaction's first attempts with the given errors, later ones with success.
func once(fail ...answer) func(Outgoing, int) *answer {
	return func(_ Outgoing, n int) *answer {
		if n <= len(fail) {
			return &fail[n-1]
		}
		return nil
	}
}

func class(c Class) answer {
	return answer{err: &SendError{Class: c, Reason: "because of " + string(c)}}
}

// TestFailures sends three messages whose first fails in some way. Each of the others arrives once and in order; and
// unless the first is given up, so does it.
func TestFailures(t *testing.T) {
	lost := answer{err: &SendError{Class: ClassRetry, Reason: "the answer was lost"}, store: true}
	wait := answer{err: &SendError{Class: ClassWait, RetryAfter: 90 * time.Second}}
	tests := []struct {
		name     string
		fail     []answer
		want     State
		attempts int
		within   time.Duration
		after    time.Duration
	}{
		{name: "at once", want: StateSent, attempts: 1, within: time.Second},
		{name: "a fault", fail: []answer{class(ClassRetry)}, want: StateSent, attempts: 2, within: 2 * time.Second, after: 250 * time.Millisecond},
		{name: "ten faults", fail: slices.Repeat([]answer{class(ClassRetry)}, 10), want: StateSent, attempts: 11, within: time.Hour, after: 3 * time.Second},
		{name: "answer lost", fail: []answer{lost}, want: StateSent, attempts: 2, within: 2 * time.Second},
		{name: "an unclassified error", fail: []answer{{err: errors.New("oops")}}, want: StateSent, attempts: 2, within: 2 * time.Second},
		{name: "told to wait", fail: []answer{wait, wait}, want: StateSent, attempts: 1, within: 182 * time.Second, after: 180 * time.Second},
		{name: "told to wait for no time", fail: []answer{{err: &SendError{Class: ClassWait}}}, want: StateSent, attempts: 1, within: 2 * time.Second, after: time.Second},
		{name: "away", fail: []answer{class(ClassAway), class(ClassAway)}, want: StateSent, attempts: 3, within: 10 * time.Second, after: time.Second},
		{name: "relogin", fail: []answer{class(ClassRelogin)}, want: StateSent, attempts: 1, within: 2 * time.Second},
		{name: "locked", fail: []answer{class(ClassLocked)}, want: StateSent, attempts: 1, within: 2 * time.Second},
		{name: "invited", fail: []answer{class(ClassJoin)}, want: StateSent, attempts: 1, within: time.Second},
		{name: "joining does not help", fail: []answer{class(ClassJoin), class(ClassJoin)}, want: StateSent, attempts: 1, within: 30 * time.Minute, after: 5 * time.Minute},
		{name: "refused", fail: []answer{class(ClassDead)}, want: StateDead, attempts: 1, within: time.Second},
		{name: "blocked", fail: []answer{class(ClassBlock)}, want: StateSent, attempts: 1, within: 30 * time.Minute, after: 5 * time.Minute},
		{name: "too large once", fail: []answer{class(ClassTooLarge)}, want: StateSent, attempts: 1, within: time.Second},
		{name: "too large twice", fail: []answer{class(ClassTooLarge), class(ClassTooLarge)}, want: StateDead, attempts: 1, within: time.Second},
		{name: "device changed", fail: []answer{class(ClassReconcile)}, want: StateSent, attempts: 1, within: time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				script := once(test.fail...)
				first := ""
				r.hs.script = func(out Outgoing, n int) *answer {
					if first == "" {
						first = out.TxnID
					}
					if out.TxnID == first {
						return script(out, n)
					}
					return nil
				}
				app := r.app("a", "!a:hs")
				ids := []int64{r.send(app.Token, "one"), r.send(app.Token, "two"), r.send(app.Token, "three")}
				began := time.Now()
				r.run()
				m, err := r.Wait(context.Background(), r.admin, ids[2], 24*time.Hour)
				took := time.Since(began)
				if err != nil || m.State != StateSent {
					t.Fatalf("the last message: %+v, %v", m, err)
				}
				if took < test.after || took > test.within {
					t.Errorf("took %v, want %v to %v", took, test.after, test.within)
				}
				if m := r.message(ids[0]); m.State != test.want || m.Attempts != test.attempts {
					t.Errorf("the first is %q after %d attempts, want %q after %d; %+v", m.State, m.Attempts, test.want, test.attempts, m)
				}
				want := []string{"one", "two", "three"}
				if test.want != StateSent {
					want = want[1:]
				}
				if got := r.hs.bodies("!a:hs"); !slices.Equal(got, want) {
					t.Errorf("the room has %q, want %q", got, want)
				}
				r.drained()
				if st := r.Status(context.Background()); st.Waiting != 0 || st.Blocked != 0 || st.Paused != "" {
					t.Errorf("status at the end: %+v", st)
				}
			})
		})
	}
}

func TestABrokenRoomDelaysNoOther(t *testing.T) {
	for _, fault := range []answer{class(ClassBlock), class(ClassRetry), {err: &SendError{Class: ClassWait, RetryAfter: time.Hour}}, {store: true, delay: time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.hs.script = func(out Outgoing, _ int) *answer {
				if out.RoomID == "!a:hs" {
					return &fault
				}
				return nil
			}
			r.run()
			a, b := r.app("a", "!a:hs"), r.app("b", "!b:hs")
			began := time.Now()
			r.send(a.Token, "never")
			time.Sleep(time.Second)
			for i := range 50 {
				r.send(a.Token, "never")
				id := r.send(b.Token, fmt.Sprint(i))
				if m, err := r.Wait(context.Background(), r.admin, id, time.Minute); err != nil || m.State != StateSent {
					t.Fatalf("%+v, %v", m, err)
				}
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the good room took %v beside %+v", took, fault)
			}
			r.hs.script = nil
		})
	}
}

func TestPauseKeepsIntakeOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hs.probeErr = &SendError{Class: ClassAway, Reason: "connection refused"}
		r.run()
		app := r.app("a", "!a:hs")
		id := r.send(app.Token, "early")
		time.Sleep(10 * time.Minute)
		if m := r.message(id); m.State != StateQueued || m.Error != "connection refused" {
			t.Errorf("while the homeserver is away: %+v", m)
		}
		if n := len(r.hs.times("!a:hs")); n != 0 {
			t.Errorf("%d attempts while the homeserver is away", n)
		}
		r.hs.comeBack()
		if m, _ := r.Wait(context.Background(), r.admin, id, time.Minute); m.State != StateSent {
			t.Errorf("after it came back: %+v", m)
		}
	})
}

func TestManyFailingRoomsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fault := class(ClassRetry)
		r.hs.script = func(Outgoing, int) *answer { return &fault }
		r.run()
		for _, room := range []string{"!a:hs", "!b:hs", "!c:hs"} {
			r.send(r.app(room, room).Token, "x")
		}
		synctest.Wait()
		if st := r.Status(context.Background()); st.Paused == "" {
			t.Error("three rooms in a row failed and nothing pauses")
		}
		r.hs.mu.Lock()
		r.hs.script = nil
		r.hs.mu.Unlock()
		time.Sleep(time.Minute)
		if st := r.Status(context.Background()); st.Paused != "" || st.Waiting != 0 {
			t.Errorf("after it came back: %+v", st)
		}
	})
}

// TestRateLimitOfTheAccount lets a homeserver take ten events and then one in five seconds, for all rooms together, as
// Synapse does.
func TestRateLimitOfTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		budget, refill := 10.0, time.Now()
		var early int
		until := map[string]time.Time{}
		r.hs.script = func(out Outgoing, _ int) *answer {
			r.hs.mu.Lock()
			defer r.hs.mu.Unlock()
			now := time.Now()
			if now.Before(until[out.RoomID]) {
				early++
			}
			budget = min(10, budget+now.Sub(refill).Seconds()/5)
			refill = now
			if budget >= 1 {
				budget--
				return nil
			}
			wait := time.Duration((1 - budget) * 5 * float64(time.Second))
			until[out.RoomID] = now.Add(wait)
			return &answer{err: &SendError{Class: ClassWait, RetryAfter: wait}}
		}
		r.run()
		var last int64
		for i := range 4 {
			app := r.app(fmt.Sprint(i), fmt.Sprintf("!%d:hs", i))
			for k := range 10 {
				last = r.send(app.Token, fmt.Sprint(k))
			}
		}
		time.Sleep(4 * time.Minute)
		_ = last
		if st := r.Status(context.Background()); st.Waiting != 0 {
			t.Errorf("%d messages wait after four minutes", st.Waiting)
		}
		if early > 0 {
			t.Errorf("%d attempts before the time that the homeserver had told", early)
		}
		for i := range 4 {
			if got := strings.Join(r.hs.bodies(fmt.Sprintf("!%d:hs", i)), " "); got != "0 1 2 3 4 5 6 7 8 9" {
				t.Errorf("room %d: %s", i, got)
			}
		}
		r.hs.mu.Lock()
		defer r.hs.mu.Unlock()
		if n := len(r.hs.attempts); n > 200 {
			t.Errorf("%d attempts for 40 messages", n)
		}
	})
}

func TestJoinedRoomGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		fault := class(ClassJoin)
		r.hs.script = func(Outgoing, int) *answer { return &fault }
		r.hs.join = func(string) error { return &SendError{Class: ClassBlock, Reason: "not invited"} }
		r.run()
		id := r.send(r.app("a", "!a:hs").Token, "x")
		synctest.Wait()
		if m := r.message(id); m.State != StateBlocked || m.Error != "because of join" {
			t.Errorf("not in the room: %+v", m)
		}
		rooms, _ := r.Rooms(context.Background(), r.admin)
		if len(rooms) != 1 || rooms[0].Blocked != "because of join" || rooms[0].Waiting != 1 {
			t.Errorf("rooms: %+v", rooms)
		}
		r.hs.script = nil
		r.delivery.Load().Handle(matrix.Joined{Room: "!a:hs"})
		if m, _ := r.Wait(context.Background(), r.admin, id, time.Second); m.State != StateSent {
			t.Errorf("after the invitation: %+v", m)
		}
	})
}

// A message can be withdrawn from a room that was encrypted since: removals are not encrypted. What waits stays.
func TestCancel_RoomIsEncryptedMeanwhile_RemovesTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		app := r.app("a", "!a:hs")
		sent := r.send(app.Token, "too much")
		r.await(sent, StateSent)
		r.delivery.Load().Handle(matrix.Encrypted{Room: "!a:hs"})
		waits := r.send(app.Token, "secret")
		time.Sleep(time.Hour)
		if _, err := r.Cancel(ctx, r.admin, sent); err != nil {
			t.Fatal(err)
		}
		r.await(sent, StateRedacted)
		if m := r.message(waits); m.State != StateBlocked {
			t.Errorf("the message that waits is %s", m.State)
		}
		if n := len(r.hs.times("!a:hs")); n != 1 || len(r.hs.bodies("!a:hs")) != 0 {
			t.Errorf("%d attempts; in the room: %q", n, r.hs.bodies("!a:hs"))
		}
	})
}

func TestEncryptedRoomGetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		app := r.app("a", "!a:hs")
		r.delivery.Load().Handle(matrix.Encrypted{Room: "!a:hs"})
		id := r.send(app.Token, "secret")
		time.Sleep(48 * time.Hour)
		if m := r.message(id); m.State != StateBlocked || !strings.Contains(m.Error, "encrypted") {
			t.Errorf("in an encrypted room: %+v", m)
		}
		if n := len(r.hs.times("!a:hs")); n != 0 {
			t.Errorf("%d attempts in an encrypted room", n)
		}
		r.close()
		r.open()
		r.run()
		time.Sleep(time.Hour)
		if n := len(r.hs.times("!a:hs")); n != 0 {
			t.Errorf("%d attempts in an encrypted room after a restart", n)
		}
		time.Sleep(48 * time.Hour)
		if m := r.message(id); m.State != StateDead {
			t.Errorf("after four days: %+v", m)
		}
	})
}

func TestUpgradedRoomTakesTheMessagesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hs.script = func(out Outgoing, _ int) *answer {
			if out.RoomID == "!a:hs" {
				a := class(ClassBlock)
				return &a
			}
			return nil
		}
		r.run()
		app := r.app("a", "!a:hs")
		id := r.send(app.Token, "x")
		synctest.Wait()
		r.delivery.Load().Handle(matrix.Replaced{Old: "!a:hs", New: "!new"})
		if m, _ := r.Wait(context.Background(), r.admin, id, time.Second); m.State != StateSent || m.RoomID != "!new" {
			t.Errorf("after the upgrade: %+v", m)
		}
		if a, _ := r.Application(context.Background(), r.admin, app.Application.ID); a.Room != "!new" {
			t.Errorf("the application still names %q", a.Room)
		}
	})
}

func TestTooOldIsDead(t *testing.T) {
	fault := class(ClassRetry)
	blocked := class(ClassBlock)
	for name, setup := range map[string]func(*homeserver){
		"failing": func(h *homeserver) { h.script = func(Outgoing, int) *answer { return &fault } },
		"blocked": func(h *homeserver) { h.script = func(Outgoing, int) *answer { return &blocked } },
		"away":    func(h *homeserver) { h.probeErr = &SendError{Class: ClassAway, Reason: "gone"} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(o *Options) { o.Delivery.MaxAge = 6 * time.Hour })
				setup(r.hs)
				r.run()
				app := r.app("a", "!a:hs")
				id, second := r.send(app.Token, "x"), r.send(app.Token, "y")
				time.Sleep(5 * time.Hour)
				late := r.send(app.Token, "late")
				if m := r.message(id); !m.State.Pending() {
					t.Errorf("after five hours: %+v", m)
				}
				time.Sleep(2 * time.Hour)
				for _, id := range []int64{id, second} {
					if m := r.message(id); m.State != StateDead || !strings.Contains(m.Error, "6h") {
						t.Errorf("after seven hours: %+v", m)
					}
				}
				if m := r.message(late); !m.State.Pending() {
					t.Errorf("a later one: %+v", m)
				}
				r.hs.mu.Lock()
				r.hs.script, r.hs.probeErr = nil, nil
				r.hs.mu.Unlock()
				if m, _ := r.Wait(context.Background(), r.admin, late, time.Hour); m.State != StateSent {
					t.Errorf("the later one at the end: %+v", m)
				}
				r.drained()
			})
		})
	}
}

func TestLongMessageIsFollowedByItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hs.script = func(out Outgoing, n int) *answer {
			if n == 1 {
				return &answer{err: &SendError{Class: ClassRetry, Reason: "fault"}}
			}
			return nil
		}
		r.run()
		app := r.app("a", "!a:hs")
		r.send(app.Token, strings.Repeat("word ", 40_000))
		id := r.send(app.Token, "next")
		r.Wait(context.Background(), r.admin, id, time.Minute)
		var kinds []string
		for _, e := range r.hs.events["!a:hs"] {
			kinds = append(kinds, e.kind)
		}
		if got := strings.Join(kinds, " "); got != "m.text m.file m.text" {
			t.Errorf("events: %s", got)
		}
	})
}
