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

// An owner who cannot be invited is not left out of the room: it is there already
// when the homeserver refuses.
func TestRoomWithoutItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		synctest.Wait()
		r.hs.lost, r.hs.uninvite = true, &SendError{Class: ClassBlock, Reason: "there is no such user"}
		app := r.app("a", "")
		id := r.send(app.Token, "x")
		m, _ := r.Wait(ctx, r.admin, id, time.Minute)
		if m.State == StateSent {
			t.Fatalf("it went to a room that nobody is in: %+v", m)
		}
		if rooms, _ := r.Rooms(ctx, r.admin); len(rooms) != 1 || rooms[0].Blocked != "there is no such user" {
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

// An application says why it has no room before a message waits for it, and a room
// that cannot be had holds up no other.
func TestRoomThatCannotBeHadYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		synctest.Wait()
		r.hs.uninvite = &SendError{Class: ClassRetry, Status: 502, Alone: true, Reason: "@admin:hs cannot be invited yet: another server is away"}
		var waiting []int64
		for _, name := range []string{"a", "b", "c"} {
			r.hs.lost = true
			app := r.app(name, "")
			r.delivery.Load().Make(ctx, r.App(app.Application.ID).Row().RoomID)
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
		r.hs.unfind = map[string]error{"": &SendError{Class: ClassBlock, Reason: "there is no such room"}}
		id := r.send(r.app("a", "").Token, "x")
		time.Sleep(time.Minute)
		if m, err := r.Cancel(ctx, r.admin, id); err != nil || m.State != StateCancelled || m.Error != "" {
			t.Errorf("it is %s, %q, %v", m.State, m.Error, err)
		}
	})
}
