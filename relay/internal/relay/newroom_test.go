package relay

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A room whose answer was lost is found again, by this relay or by the next one.
func TestRoomIsMadeOnce(t *testing.T) {
	for name, between := range map[string]func(*rig){
		"tried again":    func(*rig) {},
		"after a stop":   func(r *rig) { r.close(); r.open(); r.run() },
		"after a crash":  func(r *rig) { r.crash(); r.open(); r.run() },
		"after another":  func(r *rig) { r.app("another", "") },
		"in another one": func(r *rig) { r.app("another", "!b:hs") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.run()
				synctest.Wait()
				r.app("first", "")
				r.hs.lost = true
				app := r.app("a", "")
				if app.Application.RoomID != "" || app.Application.Room != "" || r.hs.made != 2 {
					t.Fatalf("the answer was not lost: %+v, %d rooms", app.Application, r.hs.made)
				}
				between(r)
				m, _ := r.Wait(ctx, r.admin, r.send(app.Token, "x"), time.Minute)
				if m.State != StateSent || m.RoomID != "!made2:hs" {
					t.Errorf("%+v, want it in !made2:hs", m)
				}
				if !slices.Equal(r.hs.guests["!made2:hs"], []string{"@admin:hs"}) {
					t.Errorf("invited are %q, want the owner", r.hs.guests["!made2:hs"])
				}
			})
		})
	}
}

// A room that was never made is made, though the first attempt was noted.
func TestRoomThatWasNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		synctest.Wait()
		r.hs.lost = true
		app := r.app("a", "")
		r.hs.mu.Lock()
		clear(r.hs.keys)
		r.hs.mu.Unlock()
		m, _ := r.Wait(ctx, r.admin, r.send(app.Token, "x"), time.Minute)
		if m.State != StateSent || m.RoomID != "!made2:hs" || r.hs.made != 2 {
			t.Errorf("%+v, %d rooms, want it in the second", m, r.hs.made)
		}
	})
}

// An owner who cannot be invited is not left out of the room: it is there already
// when the homeserver refuses.
func TestRoomWithoutItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		synctest.Wait()
		r.hs.lost, r.hs.uninvite = true, &SendError{Class: ClassPark, Reason: "there is no such user"}
		app := r.app("a", "")
		id := r.send(app.Token, "x")
		m, _ := r.Wait(ctx, r.admin, id, time.Minute)
		if m.State == StateSent {
			t.Fatalf("it went to a room that nobody is in: %+v", m)
		}
		if rooms, _ := r.Rooms(ctx, r.admin); len(rooms) != 1 || rooms[0].Parked != "there is no such user" {
			t.Errorf("the rooms are %+v", rooms)
		}
		r.hs.mu.Lock()
		r.hs.uninvite = nil
		r.hs.mu.Unlock()
		if m, _ = r.Wait(ctx, r.admin, id, time.Hour); m.State != StateSent || r.hs.made != 1 {
			t.Errorf("%+v, %d rooms, want it in the first", m, r.hs.made)
		}
	})
}

// A room that the homeserver can never look into keeps an application from its own
// for a while only, and the application says so.
func TestRoomBesideADarkOne(t *testing.T) {
	failed := &SendError{Class: ClassRetry, Status: 500, Reason: "the homeserver failed"}
	for name, tt := range map[string]struct {
		dark string
		want string // the room in the end
	}{
		"another is dark":       {"!b:hs", "!made1:hs"},
		"the one made is dark":  {"!made1:hs", "!made2:hs"},
		"both are, it is found": {"!a:hs", "!made1:hs"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.run()
				synctest.Wait()
				r.hs.lost, r.hs.broken = true, map[string]error{tt.dark: failed}
				app := r.app("a", "")
				if tt.dark == "!b:hs" { // the one that was made is gone
					r.hs.mu.Lock()
					clear(r.hs.keys)
					r.hs.made = 0
					r.hs.mu.Unlock()
				}
				began := time.Now()
				id := r.send(app.Token, "x")
				m, _ := r.Wait(ctx, r.admin, id, time.Minute)
				if tt.dark != "!a:hs" {
					a, _ := r.Application(ctx, r.admin, app.Application.ID)
					if m.State != StateBlocked || !strings.Contains(a.RoomProblem, tt.dark) || !strings.Contains(a.RoomProblem, "the homeserver failed") || m.Error != a.RoomProblem {
						t.Errorf("the application says %q, the message is %s: %q", a.RoomProblem, m.State, m.Error)
					}
					m, _ = r.Wait(ctx, r.admin, id, time.Hour)
				}
				a, _ := r.Application(ctx, r.admin, app.Application.ID)
				if m.State != StateSent || m.RoomID != tt.want || time.Since(began) > passOver+longestDelay || a.RoomProblem != "" {
					t.Errorf("%+v after %v, want it in %s; the application says %q", m, time.Since(began), tt.want, a.RoomProblem)
				}
			})
		})
	}
}

// An application says why it has no room before a message waits for it, and a room
// that cannot be had holds up no other.
func TestRoomThatCannotBeHadYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		synctest.Wait()
		r.hs.uninvite = &SendError{Class: ClassRetry, Status: 502, Alone: true, Reason: "another server is away"}
		var waiting []int64
		for _, name := range []string{"a", "b", "c"} {
			r.hs.lost = true
			app := r.app(name, "")
			r.d.Make(ctx, r.App(app.Application.ID).Row().RoomID)
			a, _ := r.Application(ctx, r.admin, app.Application.ID)
			if !strings.Contains(a.RoomProblem, "@admin:hs") || !strings.Contains(a.RoomProblem, "another server is away") {
				t.Errorf("the application says %q", a.RoomProblem)
			}
			waiting = append(waiting, r.send(app.Token, "x"))
		}
		time.Sleep(time.Minute)
		if st := r.Status(ctx); st.Paused != "" {
			t.Fatalf("all sending pauses: %s", st.Paused)
		}
		r.hs.mu.Lock()
		r.hs.uninvite = nil
		r.hs.mu.Unlock()
		for _, id := range waiting {
			if m, _ := r.Wait(ctx, r.admin, id, time.Hour); m.State != StateSent {
				t.Errorf("%+v", m)
			}
		}
	})
}

// A message that is withdrawn before there is a room cannot be in it.
func TestWithdrawnWithoutARoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		synctest.Wait()
		r.hs.lost, r.hs.uninvite = true, &SendError{Class: ClassRetry, Status: 502, Alone: true, Reason: "another server is away"}
		r.hs.unfind = map[string]error{"": &SendError{Class: ClassPark, Reason: "there is no such room"}}
		id := r.send(r.app("a", "").Token, "x")
		time.Sleep(time.Minute)
		if m, err := r.Cancel(ctx, r.admin, id); err != nil || m.State != StateCancelled || m.Error != "" {
			t.Errorf("it is %s, %q, %v", m.State, m.Error, err)
		}
	})
}

// A homeserver that was away has not been looked at meanwhile: a room that is dark just
// before and just after is waited for.
func TestDarkRoomBeforeAndAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		synctest.Wait()
		set := func(broken, unlist error) {
			r.hs.mu.Lock()
			defer r.hs.mu.Unlock()
			r.hs.broken, r.hs.unlist = map[string]error{"!made1:hs": broken}, unlist
		}
		failed := &SendError{Class: ClassRetry, Status: 500, Reason: "the homeserver failed"}
		set(failed, nil)
		r.hs.lost = true
		app := r.app("a", "")
		look := func() { r.d.Make(ctx, r.App(app.Application.ID).Row().RoomID) }
		look()
		set(failed, &SendError{Class: ClassAway, Reason: "away"})
		time.Sleep(time.Hour)
		set(failed, nil)
		look()
		set(nil, nil)
		look()
		if a, _ := r.Application(ctx, r.admin, app.Application.ID); r.hs.made != 1 || a.RoomID != "!made1:hs" {
			t.Errorf("%d rooms were made, and the application has %q", r.hs.made, a.RoomID)
		}
	})
}
