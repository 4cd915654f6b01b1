package relay

import (
	"slices"
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
