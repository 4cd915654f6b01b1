package account_test

import (
	"fmt"
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

// appOf makes an application of a user.
func appOf(t *testing.T, r *relaytest.Rig, owner account.Principal, name, room string) account.IssuedToken {
	t.Helper()
	app, err := r.CreateApplication(ctx, owner, account.ApplicationInput{Name: &name, Room: &room})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// A right that has ended is used by nothing that was begun while it held, also after the application went to another room.
func TestRight_Lost_NothingIsSentLater(t *testing.T) {
	for _, moves := range []bool{false, true} {
		t.Run(fmt.Sprint("moves ", moves), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := make(chan matrix.Event)
				r := relaytest.NewRig(t, func(o *service.Options) { o.Events = events })
				anna := r.NewUser("anna")
				app := appOf(t, r, anna, "a", "!a:hs")
				r.Start()
				submit := func(in post.Draft) int64 {
					in.Token, in.Body = app.Token, "x"
					return r.Send(in).ID
				}
				sent := submit(post.Draft{})
				alarm := submit(post.Draft{Priority: p(2), Retry: time.Minute, Expire: time.Hour})
				delayed := submit(post.Draft{Later: time.Now().Add(time.Hour)})
				cancelled := submit(post.Draft{Later: time.Now().Add(time.Hour)})
				r.Withdraw(cancelled)
				r.Await(alarm, post.StateSent)
				time.Sleep(time.Second)

				r.HS.SetMembership("!a:hs", "@anna:hs", "leave")
				events <- matrix.Member{Room: "!a:hs", User: "@anna:hs", Membership: "leave"}
				events <- matrix.Synced{}
				if moves {
					if _, err := r.UpdateApplication(ctx, anna, app.Application.ID, account.ApplicationInput{Room: p("!b:hs")}); err != nil {
						t.Fatal(err)
					}
				}
				before := len(r.HS.Bodies("!a:hs"))
				for name, edited := range map[string]int64{"one that is sent": sent, "one that waits": delayed} {
					if _, err := r.Accept(ctx, post.Draft{Token: app.Token, Content: post.Content{Body: "edited"}, Edits: edited}); refusal.KindOf(err) != refusal.KindForbidden {
						t.Errorf("edit %s: %v", name, err)
					}
				}
				for _, who := range []account.Principal{anna, r.Admin} {
					if _, err := r.Redeliver(ctx, who, cancelled); refusal.KindOf(err) != refusal.KindForbidden {
						t.Errorf("redeliver: %v", err)
					}
				}
				all := service.Filter{States: []post.State{post.StateCancelled}}
				if b, err := r.RedeliverAll(ctx, r.Admin, all); err != nil || b.Done != 0 {
					t.Errorf("redeliver all: %+v, %v", b, err)
				}
				time.Sleep(2 * time.Hour)
				if after := r.HS.Bodies("!a:hs"); len(after) != before {
					t.Errorf("sent later: %q", after[before:])
				}
				if m := r.Stored(delayed); m.State != post.StateDead || !strings.Contains(m.Error, "may not send to this room any more") {
					t.Errorf("the delayed one: %+v", m)
				}
				if got, err := r.Application(ctx, r.Admin, app.Application.ID); err != nil || got.Dead != 1 {
					t.Errorf("%d are given up, %v", got.Dead, err)
				}
				if m, err := r.Cancel(ctx, anna, sent); err != nil || !m.Removing {
					t.Errorf("withdraw: %+v, %v", m, err)
				}
				r.Await(sent, post.StateRedacted)
			})
		})
	}
}

// Messages that wait for the homeserver when the owner leaves the room are given up, and can be delivered after the owner's return.
func TestRight_LostWhileMessagesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		app := appOf(t, r, r.NewUser("anna"), "a", "!a:hs")
		id := r.Post(app.Token, "x")
		r.Exec(`UPDATE rooms SET room_id = '!a:hs'`)
		if err := r.Presence(ctx, "!a:hs", "@anna:hs", false); err != nil {
			t.Fatal(err)
		}
		r.Start()
		r.Await(id, post.StateDead)
		if _, err := r.Redeliver(ctx, r.Admin, id); refusal.KindOf(err) != refusal.KindForbidden {
			t.Errorf("without the right: %v", err)
		}
		if err := r.Presence(ctx, "!a:hs", "@anna:hs", true); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Redeliver(ctx, r.Admin, id); err != nil {
			t.Error(err)
		}
		r.Await(id, post.StateSent)
	})
}

// What one application may do in the room of another is what the other may: escalation mentions the room only by that right, and ends
// with it.
func TestRight_OfTheRoomThatIsEscalatedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan matrix.Event)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Events = events })
		anna := r.NewUser("anna")
		r.HS.SetRights("!night:hs", "@anna:hs", matrix.Rights{Write: true})
		app := appOf(t, r, anna, "a", "!a:hs")
		appOf(t, r, anna, "night", "!night:hs")
		to := account.ApplicationInput{Mention: p("room"), EscalateAfter: p(1), EscalateTo: p("!night:hs")}
		r.Set(app.Application.ID, to)
		var mu sync.Mutex
		wholeRoom := map[string]bool{}
		r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
			mu.Lock()
			defer mu.Unlock()
			wholeRoom[out.RoomID] = wholeRoom[out.RoomID] || strings.Contains(string(out.Content), `"room":true`)
			return nil
		}
		r.Start()
		alarm := r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "x"}, Priority: p(2), Retry: time.Minute, Expire: time.Hour})
		r.Await(alarm.ID, post.StateSent)
		time.Sleep(150 * time.Second)
		synctest.Wait()
		if there, escalated := wholeRoom["!night:hs"]; !escalated || there || !wholeRoom["!a:hs"] {
			t.Errorf("the whole room is mentioned in: %v", wholeRoom)
		}
		r.HS.SetMembership("!night:hs", "@anna:hs", "leave")
		events <- matrix.Member{Room: "!night:hs", User: "@anna:hs", Membership: "leave"}
		events <- matrix.Synced{}
		night, own := len(r.HS.Bodies("!night:hs")), len(r.HS.Bodies("!a:hs"))
		time.Sleep(5 * time.Minute)
		if n := len(r.HS.Bodies("!night:hs")); n != night {
			t.Errorf("%d messages to a room that the owner has left", n-night)
		}
		if len(r.HS.Bodies("!a:hs")) == own {
			t.Error("the reminders have ended in the alert's own room")
		}
		if _, err := r.UpdateApplication(ctx, r.Admin, app.Application.ID, to); refusal.KindOf(err) != refusal.KindInvalid {
			t.Errorf("a room that the owner has left: %v", err)
		}
	})
}
