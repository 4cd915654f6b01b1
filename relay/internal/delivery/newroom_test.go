package delivery_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// A room whose answer was lost is found again, by this relay or by the next one.
func TestRoomIsMadeOnce(t *testing.T) {
	for name, between := range map[string]func(*relaytest.Rig){
		"tried again":    func(*relaytest.Rig) {},
		"after a stop":   func(r *relaytest.Rig) { r.Restart() },
		"after a crash":  func(r *relaytest.Rig) { r.Recover() },
		"after another":  func(r *relaytest.Rig) { r.NewApp("another", "") },
		"in another one": func(r *relaytest.Rig) { r.NewApp("another", "!b:hs") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t)
				r.Start()
				synctest.Wait()
				r.NewApp("first", "")
				r.HS.Lost = true
				app := r.NewApp("a", "")
				if app.Application.RoomID != "" || app.Application.Room != "" || r.HS.Made != 2 {
					t.Fatalf("the answer was not lost: %+v, %d rooms", app.Application, r.HS.Made)
				}
				between(r)
				m, _ := r.Wait(ctx, r.Admin, r.Post(app.Token, "x"), time.Minute)
				if m.State != post.StateSent || m.RoomID != "!made2:hs" {
					t.Errorf("%+v, want it in !made2:hs", m)
				}
				if !slices.Equal(r.HS.Guests["!made2:hs"], []string{"@admin:hs"}) {
					t.Errorf("invited are %q, want the owner", r.HS.Guests["!made2:hs"])
				}
			})
		})
	}
}

// An owner who cannot be invited is not left out of the room: it is there already
// when the homeserver refuses.
func TestRoomWithoutItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.Start()
		synctest.Wait()
		r.HS.Lost, r.HS.Uninvite = true, &matrix.SendError{Class: matrix.ClassBlock, Reason: "there is no such user"}
		app := r.NewApp("a", "")
		id := r.Post(app.Token, "x")
		m, _ := r.Wait(ctx, r.Admin, id, time.Minute)
		if m.State == post.StateSent {
			t.Fatalf("it went to a room that nobody is in: %+v", m)
		}
		if rooms, _ := r.Rooms(ctx, r.Admin); len(rooms) != 1 || rooms[0].Blocked != "there is no such user" {
			t.Errorf("the rooms are %+v", rooms)
		}
		r.HS.Do(func() { r.HS.Uninvite = nil })
		if m, _ = r.Wait(ctx, r.Admin, id, time.Hour); m.State != post.StateSent || r.HS.Made != 1 {
			t.Errorf("%+v, %d rooms, want it in the first", m, r.HS.Made)
		}
	})
}

// An application shows the reason why it has no room before a message waits for it, and a room
// that cannot be created delays no other.
func TestRoomThatCannotBeHadYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.Start()
		synctest.Wait()
		r.HS.Uninvite = &matrix.SendError{Class: matrix.ClassRetry, Status: 502, Alone: true, Reason: "@admin:hs cannot be invited yet: another server is away"}
		var waiting []int64
		for _, name := range []string{"a", "b", "c"} {
			r.HS.Lost = true
			app := r.NewApp(name, "")
			r.Delivery().Make(ctx, r.Row(app.Application.ID).RoomID)
			a, _ := r.Application(ctx, r.Admin, app.Application.ID)
			if !strings.Contains(a.RoomProblem, "@admin:hs") || !strings.Contains(a.RoomProblem, "another server is away") {
				t.Errorf("the application says %q", a.RoomProblem)
			}
			waiting = append(waiting, r.Post(app.Token, "x"))
		}
		time.Sleep(time.Minute)
		if st := r.Status(ctx); st.Paused != "" {
			t.Fatalf("all sending pauses: %s", st.Paused)
		}
		r.HS.Do(func() { r.HS.Uninvite = nil })
		for _, id := range waiting {
			if m, _ := r.Wait(ctx, r.Admin, id, time.Hour); m.State != post.StateSent {
				t.Errorf("%+v", m)
			}
		}
	})
}

// A message that is withdrawn before there is a room cannot be in it.
func TestWithdrawnWithoutARoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.Start()
		synctest.Wait()
		r.HS.Lost, r.HS.Uninvite = true, &matrix.SendError{Class: matrix.ClassRetry, Status: 502, Alone: true, Reason: "another server is away"}
		r.HS.Unfind = map[string]error{"": &matrix.SendError{Class: matrix.ClassBlock, Reason: "there is no such room"}}
		id := r.Post(r.NewApp("a", "").Token, "x")
		time.Sleep(time.Minute)
		if m, err := r.Cancel(ctx, r.Admin, id); err != nil || m.State != post.StateCancelled || m.Error != "" {
			t.Errorf("it is %s, %q, %v", m.State, m.Error, err)
		}
	})
}
