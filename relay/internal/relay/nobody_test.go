package relay

import (
	"testing"
	"testing/synctest"
	"time"
)

// What an application leaves behind when it is deleted, or goes to another room, is
// no trouble that somebody would have to mend and nobody can see.
func TestRoomOfNobodyIsNoTrouble(t *testing.T) {
	for name, leave := range map[string]func(*rig, int64) error{
		"deleted": func(r *rig, id int64) error { return r.DeleteApplication(ctx, r.admin, id) },
		"elsewhere": func(r *rig, id int64) error {
			_, err := r.UpdateApplication(ctx, r.admin, id, ApplicationInput{Room: p("!good:hs")})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.hs.script = func(out Outgoing, _ int) *answer {
					if out.RoomID == "!bad:hs" {
						return &answer{err: &SendError{Class: ClassBlock, Reason: "forbidden"}}
					}
					return nil
				}
				r.hs.uninvite, r.hs.lost = &SendError{Class: ClassBlock, Reason: "there is no such user"}, true
				r.run()
				synctest.Wait()
				bad, unmade := r.app("bad", "!bad:hs"), r.app("unmade", "")
				r.delivery.Load().Make(ctx, r.App(unmade.Application.ID).Row().RoomID)
				id := r.send(bad.Token, "x")
				time.Sleep(time.Second)
				if n := r.Status(ctx).Blocked; n != 2 {
					t.Fatalf("%d rooms are blocked, want both", n)
				}
				for _, app := range []IssuedToken{bad, unmade} {
					if err := leave(r, app.Application.ID); err != nil {
						t.Fatal(err)
					}
				}
				if name == "elsewhere" { // what waits still waits for the room
					if n := r.Status(ctx).Blocked; n != 1 {
						t.Errorf("%d rooms are blocked, want the one with a message", n)
					}
					if _, err := r.Cancel(ctx, r.admin, id); err != nil {
						t.Fatal(err)
					}
				}
				made := r.hs.made
				time.Sleep(2 * maintainEvery)
				if n := r.Status(ctx).Blocked; n != 0 || r.hs.made != made {
					t.Errorf("%d rooms are blocked, and %d were made for nobody", n, r.hs.made-made)
				}
			})
		})
	}
}
