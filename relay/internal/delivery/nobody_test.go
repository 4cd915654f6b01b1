package delivery_test

import (
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// What an application leaves behind when it is deleted, or goes to another room, is
// no trouble that somebody would have to mend and nobody can see.
func TestRoomOfNobodyIsNoTrouble(t *testing.T) {
	for name, leave := range map[string]func(*relaytest.Rig, int64) error{
		"deleted": func(r *relaytest.Rig, id int64) error { return r.DeleteApplication(ctx, r.Admin, id) },
		"elsewhere": func(r *relaytest.Rig, id int64) error {
			_, err := r.UpdateApplication(ctx, r.Admin, id, account.ApplicationInput{Room: p("!good:hs")})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t)
				r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
					if out.RoomID == "!bad:hs" {
						return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassBlock, Reason: "forbidden"}}
					}
					return nil
				}
				r.HS.Uninvite, r.HS.Lost = &matrix.SendError{Class: matrix.ClassBlock, Reason: "there is no such user"}, true
				r.Start()
				synctest.Wait()
				bad, unmade := r.NewApp("bad", "!bad:hs"), r.NewApp("unmade", "")
				r.Delivery().Make(ctx, r.Row(unmade.Application.ID).RoomID)
				id := r.Post(bad.Token, "x")
				time.Sleep(time.Second)
				if n := r.Status(ctx).Blocked; n != 2 {
					t.Fatalf("%d rooms are blocked, want both", n)
				}
				for _, app := range []account.IssuedToken{bad, unmade} {
					if err := leave(r, app.Application.ID); err != nil {
						t.Fatal(err)
					}
				}
				if name == "elsewhere" { // what waits still waits for the room
					if n := r.Status(ctx).Blocked; n != 1 {
						t.Errorf("%d rooms are blocked, want the one with a message", n)
					}
					r.Withdraw(id)
				}
				made := r.HS.Made
				time.Sleep(2 * service.MaintenanceInterval)
				if n := r.Status(ctx).Blocked; n != 0 || r.HS.Made != made {
					t.Errorf("%d rooms are blocked, and %d were made for nobody", n, r.HS.Made-made)
				}
			})
		})
	}
}
