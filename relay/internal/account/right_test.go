package account_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
	"slipway/relay/internal/store"
)

// A user may name only rooms that the user is in; an administrator any.
func TestRight_RoomOfAUser_NeedsTheOwnerInIt(t *testing.T) {
	r := relaytest.NewRig(t)
	anna, bob := r.NewPerson("anna", "@anna:hs"), r.NewPerson("bob", "")
	r.HS.SetMembership("!b:hs", "@anna:hs", "invite")
	r.HS.SetMembership("!c:hs", "@anna:hs", "")
	for _, tt := range []struct {
		name string
		who  account.Principal
		room string
		away error
		kind refusal.Kind
		says string
	}{
		{"a member", anna, "!a:hs", nil, "", ""},
		{"invited only", anna, "!b:hs", nil, refusal.KindForbidden, "not in the room !b:hs"},
		{"a stranger", anna, "!c:hs", nil, refusal.KindForbidden, "join it first"},
		{"without a Matrix ID", bob, "!a:hs", nil, refusal.KindForbidden, "no Matrix ID"},
		{"the bot is not there", anna, "!d:hs", &matrix.SendError{Class: matrix.ClassJoin, Reason: "the bot is not in the room"}, refusal.KindForbidden, "invite it first"},
		{"no such room", anna, "!d:hs", &matrix.SendError{Class: matrix.ClassBlock, Reason: "the homeserver does not know the room"}, refusal.KindInvalid, "does not know the room"},
		{"the homeserver is away", anna, "!d:hs", &matrix.SendError{Class: matrix.ClassAway, Reason: "away"}, refusal.KindUnavailable, "away"},
		{"a room of the bot's", bob, "", nil, "", ""},
		{"an administrator", r.Admin, "!c:hs", &matrix.SendError{Class: matrix.ClassAway, Reason: "away"}, "", ""},
	} {
		r.HS.Mu.Lock()
		r.HS.Away = tt.away
		r.HS.Mu.Unlock()
		_, err := r.CreateApplication(ctx, tt.who, account.ApplicationInput{Name: p("new " + tt.name), Room: p(tt.room)})
		if refusal.KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("create, %s: %v, want %q", tt.name, err, tt.kind)
		}
		if tt.room == "" {
			continue
		}
		r.HS.Away = nil
		app, err := r.CreateApplication(ctx, tt.who, account.ApplicationInput{Name: p("old " + tt.name)})
		if err != nil {
			t.Fatal(err)
		}
		r.HS.Away = tt.away
		_, err = r.UpdateApplication(ctx, tt.who, app.Application.ID, account.ApplicationInput{Room: p(tt.room)})
		if refusal.KindOf(err) != tt.kind {
			t.Errorf("change, %s: %v, want %q", tt.name, err, tt.kind)
		}
	}
}

// What a user may not do to get around it: claim another's Matrix ID, or lead an alias elsewhere later.
func TestRight_NoWayAround(t *testing.T) {
	r := relaytest.NewRig(t)
	anna := r.NewPerson("anna", "@anna:hs")
	if _, err := r.UpdateUser(ctx, anna, anna.UserID, account.UserInput{MatrixID: p("@admin:hs")}); refusal.KindOf(err) != refusal.KindForbidden {
		t.Errorf("another's Matrix ID: %v", err)
	}
	if _, err := r.UpdateUser(ctx, anna, anna.UserID, account.UserInput{MatrixID: p("@anna:hs")}); err != nil {
		t.Errorf("the same: %v", err)
	}
	app, err := r.CreateApplication(ctx, anna, account.ApplicationInput{Name: p("a"), Room: p("#alias:hs")})
	if err != nil || app.Application.Room[0] != '!' || app.Application.RoomID != app.Application.Room {
		t.Errorf("an alias is stored as %q (%v)", app.Application.Room, err)
	}
	byAdmin := r.NewApp("b", "#alias:hs")
	if byAdmin.Application.Room != "#alias:hs" || !byAdmin.Application.RoomByAdmin {
		t.Errorf("an administrator's alias: %+v", byAdmin.Application)
	}
}

// An owner who didn't join the replacement of an upgraded room loses the right: sync reports no membership for
// somebody who never joined.
func TestRight_LostWithAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan matrix.Event)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Events = events })
		app, err := r.CreateApplication(ctx, r.NewPerson("anna", "@anna:hs"), account.ApplicationInput{Name: p("a"), Room: p("!old:hs")})
		if err != nil {
			t.Fatal(err)
		}
		r.Start()
		events <- matrix.Online{}
		time.Sleep(time.Minute)
		r.HS.SetMembership("!new:hs", "@anna:hs", "")
		events <- matrix.Replaced{Old: "!old:hs", New: "!new:hs"}
		time.Sleep(2 * time.Hour)
		if _, err := r.Accept(ctx, post.Draft{Token: app.Token, Content: post.Content{Body: "x"}}); refusal.KindOf(err) != refusal.KindForbidden {
			t.Errorf("accepted for a room that the owner is not in: %v", err)
		}
	})
}

// Without a Matrix ID nobody would see its owner leave: the right to a room goes with it, and comes back with an id that is
// in the room.
func TestRight_LostWithTheMatrixID(t *testing.T) {
	r := relaytest.NewRig(t)
	anna := r.NewPerson("anna", "@anna:hs")
	app, err := r.CreateApplication(ctx, anna, account.ApplicationInput{Name: p("a"), Room: p("!a:hs")})
	if err != nil {
		t.Fatal(err)
	}
	own, err := r.CreateApplication(ctx, anna, account.ApplicationInput{Name: p("own")})
	if err != nil {
		t.Fatal(err)
	}
	r.HS.SetMembership("!a:hs", "@stranger:hs", "leave")
	for _, step := range []struct {
		who  account.Principal
		id   string
		kind refusal.Kind
	}{{anna, "", refusal.KindForbidden}, {r.Admin, "@stranger:hs", refusal.KindForbidden}, {r.Admin, "@anna:hs", ""}} {
		if _, err := r.UpdateUser(ctx, step.who, anna.UserID, account.UserInput{MatrixID: &step.id}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Accept(ctx, post.Draft{Token: app.Token, Content: post.Content{Body: "x"}}); refusal.KindOf(err) != step.kind {
			t.Errorf("Matrix ID %q: %v, want %q", step.id, err, step.kind)
		}
		if _, err := r.Accept(ctx, post.Draft{Token: own.Token, Content: post.Content{Body: "x"}}); err != nil {
			t.Errorf("Matrix ID %q, a room of the bot's: %v", step.id, err)
		}
	}
}

// What an administrator took by that right doesn't outlast it: a room without the former administrator, and mentions of one.
func TestRight_LostWithTheAdministration(t *testing.T) {
	r := relaytest.NewRig(t)
	ida := r.NewPerson("ida", "@ida:hs")
	is := func(admin bool) {
		if _, err := r.UpdateUser(ctx, r.Admin, ida.UserID, account.UserInput{Admin: &admin}); err != nil {
			t.Fatal(err)
		}
		ida.Admin = admin
	}
	is(true)
	r.HS.SetMembership("!hers:hs", "@ida:hs", "join")
	r.HS.SetMembership("!other:hs", "@ida:hs", "leave")
	other, hers := appOf(t, r, ida, "other", "!other:hs"), appOf(t, r, ida, "hers", "!hers:hs")
	for _, admin := range []bool{true, false} {
		is(admin)
		want := map[bool]refusal.Kind{true: "", false: refusal.KindForbidden}[admin]
		if _, err := r.Accept(ctx, post.Draft{Token: other.Token, Content: post.Content{Body: "x"}}); refusal.KindOf(err) != want {
			t.Errorf("administrator %v, a room without ida: %v, want %q", admin, err, want)
		}
		if _, err := r.Accept(ctx, post.Draft{Token: hers.Token, Content: post.Content{Body: "x"}}); err != nil {
			t.Errorf("administrator %v, a room of ida's: %v", admin, err)
		}
	}
}

// An owner who leaves the room loses the right, and has it again after coming back. Applications from before, an administrator's
// and those in rooms of the bot's go on.
func TestRight_LostWithTheMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan matrix.Event)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Events = events })
		anna := r.NewPerson("anna", "@anna:hs")
		mine, err := r.CreateApplication(ctx, anna, account.ApplicationInput{Name: p("mine"), Room: p("!a:hs")})
		if err != nil {
			t.Fatal(err)
		}
		byAdmin := r.NewApp("admin's", "!a:hs")
		old := r.NewApp("from before", "!a:hs")
		err = r.Options.Store.Update(ctx, func(tx *store.Tx) error {
			row, err := tx.Application(old.Application.ID)
			if err != nil {
				return err
			}
			row.RoomRight = ""
			return tx.UpdateApplication(&row)
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Shutdown()
		r.Open()
		r.Start()
		tell := func(user, membership string) {
			events <- matrix.Member{Room: "!a:hs", User: user, Membership: membership}
			events <- matrix.Synced{}
		}
		send := func(token string) error {
			_, err := r.Accept(ctx, post.Draft{Token: token, Content: post.Content{Body: "x"}, Source: "test"})
			return err
		}
		tell("@anna:hs", "leave")
		tell("@admin:hs", "ban")
		if err := send(mine.Token); refusal.KindOf(err) != refusal.KindForbidden || !strings.Contains(err.Error(), "not in its room any more") {
			t.Errorf("after leaving: %v", err)
		}
		for name, token := range map[string]string{"an administrator's": byAdmin.Token, "one from before": old.Token} {
			if err := send(token); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, id := range []int64{mine.Application.ID, old.Application.ID} {
			if app, err := r.Application(ctx, r.Admin, id); err != nil || !app.OwnerAbsent {
				t.Errorf("application %d is not flagged: %+v, %v", id, app, err)
			}
		}
		r.Shutdown() // it is kept
		r.Open()
		r.Start()
		if err := send(mine.Token); refusal.KindOf(err) != refusal.KindForbidden {
			t.Errorf("after a restart: %v", err)
		}
		tell("@anna:hs", "join")
		if err := send(mine.Token); err != nil {
			t.Errorf("after coming back: %v", err)
		}

		// What was missed is found out when the homeserver answers again.
		r.HS.SetMembership("!a:hs", "@anna:hs", "leave")
		events <- matrix.Online{}
		time.Sleep(time.Second)
		if err := send(mine.Token); refusal.KindOf(err) != refusal.KindForbidden {
			t.Errorf("left while nobody looked: %v", err)
		}
	})
}

// A look at a room is kept, and is the same everywhere.
func TestLook_IsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan matrix.Event)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Events = events })
		r.HS.Infos = map[string]matrix.RoomInfo{"!a:hs": {RoomID: "!a:hs", Name: "Hall", Joined: true, Writable: true, Notifies: true}}
		app := r.NewApp("a", "!a:hs")
		r.Start()
		events <- matrix.Synced{}
		time.Sleep(time.Second) // looked at as soon as sync has answered
		want := func(when, problem string, notifies bool) {
			t.Helper()
			a, err := r.Application(ctx, r.Admin, app.Application.ID)
			rooms, listErr := r.Rooms(ctx, r.Admin)
			if err != nil || listErr != nil {
				t.Fatal(err, listErr)
			}
			if a.RoomName != "Hall" || a.RoomProblem != problem || a.RoomNotifies != notifies || a.RoomCheckedAt.IsZero() {
				t.Errorf("%s: the application says %q, %q, %v", when, a.RoomName, a.RoomProblem, a.RoomNotifies)
			}
			if rooms[0].Name != "Hall" || rooms[0].Blocked != problem || rooms[0].Notifies != notifies {
				t.Errorf("%s: the rooms say %+v", when, rooms[0])
			}
			if st := r.Status(ctx); st.Blocked != map[bool]int{true: 0, false: 1}[problem == ""] {
				t.Errorf("%s: %d rooms are blocked", when, st.Blocked)
			}
		}
		want("at first", "", true)
		r.HS.Mu.Lock()
		r.HS.Infos["!a:hs"] = matrix.RoomInfo{RoomID: "!a:hs", Name: "Hall", Joined: true}
		r.HS.Mu.Unlock()
		if _, err := r.CheckRoom(ctx, "!a:hs"); err != nil {
			t.Fatal(err)
		}
		const mayNot = "The bot may not write in the room: give it the power level for messages."
		want("without power", mayNot, false)
		r.Shutdown()
		r.Open()
		want("after a restart", mayNot, false)
		r.Start()
		tell := func(info matrix.RoomInfo, e matrix.Event) {
			r.HS.Mu.Lock()
			r.HS.Infos["!a:hs"] = info
			r.HS.Mu.Unlock()
			events <- e
			events <- matrix.Synced{}
			time.Sleep(time.Second)
		}
		tell(matrix.RoomInfo{RoomID: "!a:hs", Name: "Hall", Joined: true, Writable: true, Notifies: true}, matrix.PowerLevels{Room: "!a:hs"})
		want("with power again", "", true)
		tell(matrix.RoomInfo{RoomID: "!a:hs", Invited: true}, matrix.PowerLevels{Room: "!a:hs"}) // the bot is about to follow an invitation
		if a, _ := r.Application(ctx, r.Admin, app.Application.ID); a.RoomProblem != "" {
			t.Errorf("invited: %q", a.RoomProblem)
		}
		if _, err := r.CheckRoom(ctx, "!a:hs"); err != nil {
			t.Fatal(err)
		}
		if a, _ := r.Application(ctx, r.Admin, app.Application.ID); !strings.Contains(a.RoomProblem, "invited but has not joined") {
			t.Errorf("invited, and somebody asks: %q", a.RoomProblem)
		}
	})
}

// The check of owners continues after an error, though the homeserver is never away long enough for sync to notice.
func TestRight_CheckedAgainAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan matrix.Event)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Events = events })
		anna := r.NewPerson("anna", "@anna:hs")
		mine, err := r.CreateApplication(ctx, anna, account.ApplicationInput{Name: p("mine"), Room: p("!a:hs")})
		if err != nil {
			t.Fatal(err)
		}
		r.Start()
		synctest.Wait()
		r.Await(r.Post(mine.Token, "x"), post.StateSent) // the room's id is known
		away := func(err error) {
			r.HS.Mu.Lock()
			defer r.HS.Mu.Unlock()
			r.HS.Away = err
		}
		away(&matrix.SendError{Class: matrix.ClassAway, Reason: "away"})
		events <- matrix.Online{}
		time.Sleep(time.Second)
		away(nil)
		r.HS.SetMembership("!a:hs", "@anna:hs", "leave")
		time.Sleep(2 * time.Hour)
		if _, err := r.Accept(ctx, post.Draft{Token: mine.Token, Content: post.Content{Body: "x"}, Source: "test"}); refusal.KindOf(err) != refusal.KindForbidden {
			t.Errorf("after leaving: %v", err)
		}
	})
}
