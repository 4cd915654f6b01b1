package relay

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/store"
)

func (h *homeserver) standing(room, user, membership string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.members == nil {
		h.members = map[string]string{}
	}
	h.members[room+" "+user] = membership
}

func (r *rig) person(name, matrixID string) Viewer {
	r.t.Helper()
	u, err := r.CreateUser(ctx, r.admin, UserInput{Name: &name, Password: p("password of " + name), MatrixID: &matrixID})
	if err != nil {
		r.t.Fatal(err)
	}
	return Viewer{UserID: u.ID, Name: u.Name}
}

// A user may name only rooms that the user is in; an administrator any.
func TestRight_RoomOfAUser_NeedsTheOwnerInIt(t *testing.T) {
	r := newRig(t)
	anna, bob := r.person("anna", "@anna:hs"), r.person("bob", "")
	r.hs.standing("!b:hs", "@anna:hs", "invite")
	r.hs.standing("!c:hs", "@anna:hs", "")
	for _, tt := range []struct {
		name string
		who  Viewer
		room string
		away error
		kind Kind
		says string
	}{
		{"a member", anna, "!a:hs", nil, "", ""},
		{"invited only", anna, "!b:hs", nil, KindForbidden, "not in the room !b:hs"},
		{"a stranger", anna, "!c:hs", nil, KindForbidden, "join it first"},
		{"without a Matrix id", bob, "!a:hs", nil, KindForbidden, "no Matrix ID"},
		{"the bot is not there", anna, "!d:hs", &SendError{Class: ClassJoin, Reason: "the bot is not in the room"}, KindForbidden, "invite it first"},
		{"no such room", anna, "!d:hs", &SendError{Class: ClassBlock, Reason: "the homeserver does not know the room"}, KindInvalid, "does not know the room"},
		{"the homeserver is away", anna, "!d:hs", &SendError{Class: ClassAway, Reason: "away"}, KindUnavailable, "away"},
		{"a room of the bot's", bob, "", nil, "", ""},
		{"an administrator", r.admin, "!c:hs", &SendError{Class: ClassAway, Reason: "away"}, "", ""},
	} {
		r.hs.mu.Lock()
		r.hs.away = tt.away
		r.hs.mu.Unlock()
		_, err := r.CreateApplication(ctx, tt.who, ApplicationInput{Name: p("new " + tt.name), Room: p(tt.room)})
		if KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("create, %s: %v, want %q", tt.name, err, tt.kind)
		}
		if tt.room == "" {
			continue
		}
		r.hs.away = nil
		app, err := r.CreateApplication(ctx, tt.who, ApplicationInput{Name: p("old " + tt.name)})
		if err != nil {
			t.Fatal(err)
		}
		r.hs.away = tt.away
		_, err = r.UpdateApplication(ctx, tt.who, app.Application.ID, ApplicationInput{Room: p(tt.room)})
		if KindOf(err) != tt.kind {
			t.Errorf("change, %s: %v, want %q", tt.name, err, tt.kind)
		}
	}
}

// What a user may not do to get around it: claim another's Matrix id, or lead an alias elsewhere later.
func TestRight_NoWayAround(t *testing.T) {
	r := newRig(t)
	anna := r.person("anna", "@anna:hs")
	if _, err := r.UpdateUser(ctx, anna, anna.UserID, UserInput{MatrixID: p("@admin:hs")}); KindOf(err) != KindForbidden {
		t.Errorf("another's Matrix id: %v", err)
	}
	if _, err := r.UpdateUser(ctx, anna, anna.UserID, UserInput{MatrixID: p("@anna:hs")}); err != nil {
		t.Errorf("the same: %v", err)
	}
	app, err := r.CreateApplication(ctx, anna, ApplicationInput{Name: p("a"), Room: p("#alias:hs")})
	if err != nil || app.Application.Room[0] != '!' || app.Application.RoomID != app.Application.Room {
		t.Errorf("an alias is stored as %q (%v)", app.Application.Room, err)
	}
	byAdmin := r.app("b", "#alias:hs")
	if byAdmin.Application.Room != "#alias:hs" || !byAdmin.Application.RoomByAdmin {
		t.Errorf("an administrator's alias: %+v", byAdmin.Application)
	}
}

// An owner who did not follow into the room that took the place of another loses the right: sync tells of nobody who is
// not there.
func TestRight_LostWithAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan matrix.Event)
		r := newRig(t, func(o *Options) { o.Events = events })
		app, err := r.CreateApplication(ctx, r.person("anna", "@anna:hs"), ApplicationInput{Name: p("a"), Room: p("!old:hs")})
		if err != nil {
			t.Fatal(err)
		}
		r.run()
		events <- matrix.Online{}
		time.Sleep(time.Minute)
		r.hs.standing("!new:hs", "@anna:hs", "")
		events <- matrix.Replaced{Old: "!old:hs", New: "!new:hs"}
		time.Sleep(2 * time.Hour)
		if _, err := r.Accept(ctx, AcceptRequest{Token: app.Token, Message: "x"}); KindOf(err) != KindForbidden {
			t.Errorf("accepted for a room that the owner is not in: %v", err)
		}
	})
}

// Without a Matrix id nobody would see its owner leave: the right to a room goes with it, and comes back with an id that is
// in the room.
func TestRight_LostWithTheMatrixID(t *testing.T) {
	r := newRig(t)
	anna := r.person("anna", "@anna:hs")
	app, err := r.CreateApplication(ctx, anna, ApplicationInput{Name: p("a"), Room: p("!a:hs")})
	if err != nil {
		t.Fatal(err)
	}
	own, err := r.CreateApplication(ctx, anna, ApplicationInput{Name: p("own")})
	if err != nil {
		t.Fatal(err)
	}
	r.hs.standing("!a:hs", "@stranger:hs", "leave")
	for _, step := range []struct {
		who  Viewer
		id   string
		kind Kind
	}{{anna, "", KindForbidden}, {r.admin, "@stranger:hs", KindForbidden}, {r.admin, "@anna:hs", ""}} {
		if _, err := r.UpdateUser(ctx, step.who, anna.UserID, UserInput{MatrixID: &step.id}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Accept(ctx, AcceptRequest{Token: app.Token, Message: "x"}); KindOf(err) != step.kind {
			t.Errorf("Matrix id %q: %v, want %q", step.id, err, step.kind)
		}
		if _, err := r.Accept(ctx, AcceptRequest{Token: own.Token, Message: "x"}); err != nil {
			t.Errorf("Matrix id %q, a room of the bot's: %v", step.id, err)
		}
	}
}

// Who leaves the room loses the right, and has it again after coming back. Applications from before, an administrator's
// and those in rooms of the bot's go on.
func TestRight_LostWithTheMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan matrix.Event)
		r := newRig(t, func(o *Options) { o.Events = events })
		anna := r.person("anna", "@anna:hs")
		mine, err := r.CreateApplication(ctx, anna, ApplicationInput{Name: p("mine"), Room: p("!a:hs")})
		if err != nil {
			t.Fatal(err)
		}
		byAdmin := r.app("admin's", "!a:hs")
		old := r.app("from before", "!a:hs")
		err = r.store.Update(ctx, func(tx *store.Tx) error {
			row := *r.App(old.Application.ID).Row()
			row.RoomRight = ""
			return tx.UpdateApplication(&row)
		})
		if err != nil {
			t.Fatal(err)
		}
		r.close()
		r.open()
		r.run()
		tell := func(user, membership string) {
			events <- matrix.Member{Room: "!a:hs", User: user, Membership: membership}
			events <- matrix.Synced{}
		}
		send := func(token string) error {
			_, err := r.Accept(ctx, AcceptRequest{Token: token, Message: "x", Source: "test"})
			return err
		}
		tell("@anna:hs", "leave")
		tell("@admin:hs", "ban")
		if err := send(mine.Token); KindOf(err) != KindForbidden || !strings.Contains(err.Error(), "not in its room any more") {
			t.Errorf("after leaving: %v", err)
		}
		for name, token := range map[string]string{"an administrator's": byAdmin.Token, "one from before": old.Token} {
			if err := send(token); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, id := range []int64{mine.Application.ID, old.Application.ID} {
			if app, err := r.Application(ctx, r.admin, id); err != nil || !app.OwnerAbsent {
				t.Errorf("application %d is not flagged: %+v, %v", id, app, err)
			}
		}
		r.close() // it is kept
		r.open()
		r.run()
		if err := send(mine.Token); KindOf(err) != KindForbidden {
			t.Errorf("after a restart: %v", err)
		}
		tell("@anna:hs", "join")
		if err := send(mine.Token); err != nil {
			t.Errorf("after coming back: %v", err)
		}

		// What was missed is found out when the homeserver answers again.
		r.hs.standing("!a:hs", "@anna:hs", "leave")
		events <- matrix.Online{}
		time.Sleep(time.Second)
		if err := send(mine.Token); KindOf(err) != KindForbidden {
			t.Errorf("left while nobody looked: %v", err)
		}
	})
}

// A look at a room is kept, and is the same everywhere.
func TestLook_IsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan matrix.Event)
		r := newRig(t, func(o *Options) { o.Events = events })
		r.hs.infos = map[string]RoomInfo{"!a:hs": {RoomID: "!a:hs", Name: "Hall", Joined: true, Writable: true, Notifies: true}}
		app := r.app("a", "!a:hs")
		r.run()
		events <- matrix.Synced{}
		time.Sleep(time.Second) // looked at as soon as sync has answered
		want := func(when, problem string, notifies bool) {
			t.Helper()
			a, err := r.Application(ctx, r.admin, app.Application.ID)
			rooms, listErr := r.Rooms(ctx, r.admin)
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
		r.hs.mu.Lock()
		r.hs.infos["!a:hs"] = RoomInfo{RoomID: "!a:hs", Name: "Hall", Joined: true}
		r.hs.mu.Unlock()
		if _, err := r.CheckRoom(ctx, "!a:hs"); err != nil {
			t.Fatal(err)
		}
		const mayNot = "The bot may not write in the room: give it the power level for messages."
		want("without power", mayNot, false)
		r.close()
		r.open()
		want("after a restart", mayNot, false)
		r.run()
		tell := func(info RoomInfo, e matrix.Event) {
			r.hs.mu.Lock()
			r.hs.infos["!a:hs"] = info
			r.hs.mu.Unlock()
			events <- e
			events <- matrix.Synced{}
			time.Sleep(time.Second)
		}
		tell(RoomInfo{RoomID: "!a:hs", Name: "Hall", Joined: true, Writable: true, Notifies: true}, matrix.PowerLevels{Room: "!a:hs"})
		want("with power again", "", true)
		tell(RoomInfo{RoomID: "!a:hs", Invited: true}, matrix.PowerLevels{Room: "!a:hs"}) // the bot is about to follow an invitation
		if a, _ := r.Application(ctx, r.admin, app.Application.ID); a.RoomProblem != "" {
			t.Errorf("invited: %q", a.RoomProblem)
		}
		if _, err := r.CheckRoom(ctx, "!a:hs"); err != nil {
			t.Fatal(err)
		}
		if a, _ := r.Application(ctx, r.admin, app.Application.ID); !strings.Contains(a.RoomProblem, "invited but has not joined") {
			t.Errorf("invited, and somebody asks: %q", a.RoomProblem)
		}
	})
}
