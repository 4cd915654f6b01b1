package relay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/store"
)

// user makes a user and returns the viewer.
func (r *rig) user(name string) Viewer {
	r.t.Helper()
	u, err := r.CreateUser(ctx, r.admin, UserInput{Name: &name, Password: p("password of " + name), MatrixID: p("@" + name + ":hs")})
	if err != nil {
		r.t.Fatal(err)
	}
	return Viewer{UserID: u.ID, Name: u.Name}
}

func TestApplicationFields(t *testing.T) {
	r := newRig(t)
	r.app("taken", "!a:hs")
	tests := []struct {
		name  string
		in    ApplicationInput
		kind  Kind
		field string
	}{
		{"bare room id of version 12", ApplicationInput{Name: p("v12"), Room: p("!31hneApxJ_1o-63DmFrpeqnkFfWppnzWso1JvH3ogLM")}, "", ""},
		{"alias", ApplicationInput{Name: p("alias"), Room: p("#room:hs")}, "", ""},
		{"space around the name", ApplicationInput{Name: p(" spaced "), Room: p("!a:hs")}, "", ""},
		{"no name", ApplicationInput{}, KindInvalid, "name"},
		{"empty name", ApplicationInput{Name: p(" ")}, KindInvalid, "name"},
		{"long name", ApplicationInput{Name: p(strings.Repeat("n", 129))}, KindInvalid, "name"},
		{"control character", ApplicationInput{Name: p("a\nb")}, KindInvalid, "name"},
		{"taken", ApplicationInput{Name: p("taken"), Room: p("!b:hs")}, KindConflict, "name"},
		{"user as room", ApplicationInput{Name: p("u"), Room: p("@user:hs")}, KindInvalid, "room_id"},
		{"room with a space", ApplicationInput{Name: p("u"), Room: p("!a b:hs")}, KindInvalid, "room_id"},
		{"alias without server", ApplicationInput{Name: p("u"), Room: p("#room")}, KindInvalid, "room_id"},
		{"priority", ApplicationInput{Name: p("u"), DefaultPriority: p(3)}, KindInvalid, "default_priority"},
		{"scale", ApplicationInput{Name: p("u"), PriorityScale: p(Scale("ntfy"))}, KindInvalid, "priority_scale"},
		{"rate", ApplicationInput{Name: p("u"), RateLimit: p(-1)}, KindInvalid, "rate_limit"},
		{"owner", ApplicationInput{Name: p("u"), OwnerID: p(int64(99))}, KindInvalid, "owner_id"},
	}
	for _, test := range tests {
		_, err := r.CreateApplication(ctx, r.admin, test.in)
		if e := refused(err); e.Kind != test.kind || e.Field != test.field {
			t.Errorf("%s: %v (kind %q, field %q), want %q, %q", test.name, err, e.Kind, e.Field, test.kind, test.field)
		}
	}
	apps, err := r.Applications(ctx, r.admin)
	var names []string
	for _, a := range apps {
		names = append(names, a.Name)
	}
	if want := []string{"taken", "v12", "alias", "spaced"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("applications %q, %v; want %q", names, err, want)
	}
}

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		strict, err := r.CreateApplication(ctx, r.admin, ApplicationInput{Name: p("strict"), Room: p("!a:hs"), StrictCompatibility: p(true)})
		if err != nil || !regexp.MustCompile(`^A[0-9A-Za-z]{14}$`).MatchString(strict.Token) {
			t.Errorf("strict token %q, %v", strict.Token, err)
		}
		app := r.app("a", "!a:hs")
		if !regexp.MustCompile(`^A[0-9A-Za-z]{31}$`).MatchString(app.Token) {
			t.Errorf("token %q", app.Token)
		}
		valid := func(token string) bool {
			_, err := r.TokenViewer(ctx, token)
			return err == nil
		}
		second, err := r.RegenerateToken(ctx, r.admin, app.Application.ID, time.Hour)
		if err != nil || !valid(app.Token) || !valid(second.Token) {
			t.Errorf("within the time of grace: %v; old %v, new %v", err, valid(app.Token), valid(second.Token))
		}
		time.Sleep(61 * time.Minute)
		if valid(app.Token) || !valid(second.Token) {
			t.Errorf("after it: old %v, new %v", valid(app.Token), valid(second.Token))
		}
		third, err := r.RegenerateToken(ctx, r.admin, app.Application.ID, 0)
		if err != nil || valid(second.Token) || !valid(third.Token) {
			t.Errorf("without grace: %v; old %v, new %v", err, valid(second.Token), valid(third.Token))
		}
		r.close()
		r.open()
		if valid(app.Token) || valid(second.Token) || !valid(third.Token) || !valid(strict.Token) {
			t.Error("a restart changed which tokens are valid")
		}
		if err := r.DeleteApplication(ctx, r.admin, app.Application.ID); err != nil || valid(third.Token) {
			t.Errorf("deleted: %v; the token is valid: %v", err, valid(third.Token))
		}
	})
}

func TestLenientTokens(t *testing.T) {
	r := newRig(t, func(o *Options) { o.CheckToken = false })
	app := r.app("a", "!a:hs")
	if _, err := r.RegenerateToken(ctx, r.admin, app.Application.ID, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := r.TokenViewer(ctx, " "+app.Token+"\n"); err != nil {
		t.Errorf("the token before, with space around it: %v", err)
	}
	if _, err := r.TokenViewer(ctx, app.Token+"x"); KindOf(err) != KindUnauthorized {
		t.Errorf("another token: %v", err)
	}
}

func TestDeletedApplicationIsGone(t *testing.T) {
	r := newRig(t)
	r.hs.probeErr = &SendError{Class: ClassAway}
	r.run()
	gone, stays := r.app("gone", "!a:hs"), r.app("stays", "!a:hs")
	var ids []int64
	for i := range 100 {
		ids = append(ids, r.send([]IssuedToken{gone, stays}[i%2].Token, fmt.Sprint(i)))
	}
	if err := r.DeleteApplication(ctx, r.admin, gone.Application.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Message(ctx, r.admin, ids[0]); KindOf(err) != KindNotFound {
		t.Errorf("its message: %v", err)
	}
	if _, err := r.Application(ctx, r.admin, gone.Application.ID); KindOf(err) != KindNotFound {
		t.Errorf("the application: %v", err)
	}
	r.hs.comeBack()
	r.delivery.Load().Handle(matrix.Online{})
	r.await(ids[99], StateSent)
	if got := r.hs.bodies("!a:hs"); len(got) != 50 || slices.Contains(got, "0") {
		t.Errorf("the room has %d events: %q", len(got), got)
	}
	if again := r.app("gone", "!a:hs"); again.Application.ID == gone.Application.ID {
		t.Error("the id was used again")
	}
	r.drained()
}

func TestRoomOfTheBotsMaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hs.probeErr = &SendError{Class: ClassAway, Reason: "gone"}
		r.run()
		app := r.app("a", "")
		if app.Application.Room != "" || app.Application.RoomID != "" {
			t.Errorf("before the homeserver is there: %+v", app.Application)
		}
		id := r.send(app.Token, "x")
		r.hs.comeBack()
		if m, _ := r.Wait(ctx, r.admin, id, time.Minute); m.State != StateSent || m.RoomID != "!made1:hs" {
			t.Errorf("after it: %+v", m)
		}
		if b := r.app("b", ""); b.Application.RoomID != "!made2:hs" || b.Application.Room != "!made2:hs" {
			t.Errorf("with a homeserver: %+v", b.Application)
		}
		r.close()
		r.open()
		r.run()
		r.Wait(ctx, r.admin, r.send(app.Token, "y"), time.Minute)
		if r.hs.made != 2 {
			t.Errorf("%d rooms were made", r.hs.made)
		}
	})
}

func TestAliasIsLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		app := r.app("a", "#room:hs")
		id := r.send(app.Token, "x")
		r.run()
		if m, _ := r.Wait(ctx, r.admin, id, time.Minute); m.State != StateSent || m.RoomID != "!resolved-room:hs" || m.Room != "#room:hs" {
			t.Errorf("%+v", m)
		}
	})
}

func TestApplicationsBelongToTheirOwners(t *testing.T) {
	r := newRig(t)
	anna, bert := r.user("anna"), r.user("bert")
	app, err := r.CreateApplication(ctx, anna, ApplicationInput{Name: p("a"), Room: p("!a:hs")})
	if err != nil {
		t.Fatal(err)
	}
	id := app.Application.ID
	if _, err := r.CreateApplication(ctx, bert, ApplicationInput{Name: p("a"), Room: p("!a:hs")}); err != nil {
		t.Errorf("two users may use the same name: %v", err)
	}
	token, _ := r.TokenViewer(ctx, app.Token)
	for name, v := range map[string]Viewer{"another user": bert, "nobody": {}} {
		_, err1 := r.Application(ctx, v, id)
		_, err2 := r.UpdateApplication(ctx, v, id, ApplicationInput{Name: p("b")})
		_, err3 := r.RegenerateToken(ctx, v, id, 0)
		err4 := r.DeleteApplication(ctx, v, id)
		for i, err := range []error{err1, err2, err3, err4} {
			if KindOf(err) != KindNotFound {
				t.Errorf("%s, call %d: %v", name, i, err)
			}
		}
	}
	if _, err := r.UpdateApplication(ctx, token, id, ApplicationInput{Name: p("b")}); KindOf(err) != KindNotFound {
		t.Errorf("an application changes itself: %v", err)
	}
	if _, err := r.CreateApplication(ctx, token, ApplicationInput{Name: p("b")}); KindOf(err) != KindForbidden {
		t.Errorf("an application makes another: %v", err)
	}
	if _, err := r.UpdateApplication(ctx, anna, id, ApplicationInput{OwnerID: &bert.UserID}); KindOf(err) != KindForbidden {
		t.Errorf("a user gives an application away: %v", err)
	}
	a, err := r.UpdateApplication(ctx, r.admin, id, ApplicationInput{Name: p("new"), Room: p("!b:hs"), OwnerID: &bert.UserID, DefaultPriority: p(-1)})
	if err != nil || a.Name != "new" || a.Room != "!b:hs" || a.OwnerName != "bert" || a.DefaultPriority != -1 {
		t.Errorf("changed by the administrator: %+v, %v", a, err)
	}
	r.close()
	r.open()
	if b, err := r.Application(ctx, r.admin, id); err != nil || b != a {
		t.Errorf("after a restart: %+v, %v", b, err)
	}
}

func TestUsers(t *testing.T) {
	r := newRig(t)
	anna := r.user("anna")
	tests := []struct {
		name string
		call func() error
		kind Kind
	}{
		{"name taken, in another case", func() error {
			_, err := r.CreateUser(ctx, r.admin, UserInput{Name: p("ANNA"), Password: p("password")})
			return err
		}, KindConflict},
		{"no password", func() error { _, err := r.CreateUser(ctx, r.admin, UserInput{Name: p("b")}); return err }, KindInvalid},
		{"short password", func() error {
			_, err := r.CreateUser(ctx, r.admin, UserInput{Name: p("b"), Password: p("1234567")})
			return err
		}, KindInvalid},
		{"colon", func() error {
			_, err := r.CreateUser(ctx, r.admin, UserInput{Name: p("b:c"), Password: p("password")})
			return err
		}, KindInvalid},
		{"bad matrix id", func() error {
			_, err := r.UpdateUser(ctx, r.admin, anna.UserID, UserInput{MatrixID: p("anna")})
			return err
		}, KindInvalid},
		{"a user makes users", func() error {
			_, err := r.CreateUser(ctx, anna, UserInput{Name: p("b"), Password: p("password")})
			return err
		}, KindForbidden},
		{"a user lists users", func() error { _, err := r.Users(ctx, anna); return err }, KindForbidden},
		{"a user sees another", func() error { _, err := r.User(ctx, anna, r.admin.UserID); return err }, KindNotFound},
		{"a user becomes administrator", func() error { _, err := r.UpdateUser(ctx, anna, anna.UserID, UserInput{Admin: p(true)}); return err }, KindForbidden},
		{"a user deletes itself", func() error { return r.DeleteUser(ctx, anna, anna.UserID) }, KindForbidden},
		{"the last administrator is demoted", func() error {
			_, err := r.UpdateUser(ctx, r.admin, r.admin.UserID, UserInput{Admin: p(false)})
			return err
		}, KindConflict},
		{"the last administrator is deleted", func() error { return r.DeleteUser(ctx, r.admin, r.admin.UserID) }, KindConflict},
		{"an unknown user", func() error { _, err := r.User(ctx, r.admin, 99); return err }, KindNotFound},
		{"own password", func() error {
			_, err := r.UpdateUser(ctx, anna, anna.UserID, UserInput{Password: p("another password")})
			return err
		}, ""},
	}
	for _, test := range tests {
		if err := test.call(); KindOf(err) != test.kind {
			t.Errorf("%s: %v, want %q", test.name, err, test.kind)
		}
	}
	if _, err := r.Authenticate(ctx, "anna", "another password", "::1"); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	if _, err := r.CreateApplication(ctx, anna, ApplicationInput{Name: p("hers"), Room: p("!h:hs")}); err != nil {
		t.Fatal(err)
	}
	ids, _ := r.store.MatrixUsers(ctx)
	if !slices.Equal(ids, []string{"@admin:hs", "@anna:hs"}) {
		t.Errorf("Matrix ids: %q", ids)
	}
	if err := r.DeleteUser(ctx, r.admin, anna.UserID); err != nil {
		t.Errorf("delete a user: %v", err)
	}
	if apps, _ := r.Applications(ctx, r.admin); len(apps) != 0 {
		t.Errorf("applications of a deleted user: %+v", apps)
	}
	if _, err := r.Authenticate(ctx, "anna", "another password", "::1"); KindOf(err) != KindUnauthorized {
		t.Errorf("a deleted user logs in: %v", err)
	}
}

// An administrator who goes leaves nothing behind that keeps the account, as long as
// there is another one; who is gone makes no application.
func TestAdministratorDeletesItself(t *testing.T) {
	r := newRig(t)
	other := r.row(store.User{Name: "other", IsAdmin: true})
	r.app("a", "!a:hs")
	if err := r.DeleteUser(ctx, r.admin, r.admin.UserID); err != nil {
		t.Fatal(err)
	}
	if users, _ := r.Users(ctx, viewer(other)); len(users) != 1 || users[0].ID != other.ID {
		t.Errorf("the users are %+v", users)
	}
	if apps, _ := r.Applications(ctx, viewer(other)); len(apps) != 0 {
		t.Errorf("applications of the one who is gone: %+v", apps)
	}
	if _, err := r.CreateApplication(ctx, r.admin, ApplicationInput{Name: p("b")}); KindOf(err) != KindInvalid {
		t.Errorf("an application of nobody's: %v", err)
	}
}

func TestAdministratorFollowsTheConfiguration(t *testing.T) {
	r := newRig(t, withAdmin)
	first := r.admin.UserID
	s, err := r.Login(ctx, "admin", "administrator", "::1")
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	r.o.Admin.Password, r.o.Admin.MatrixID = "changed password", "@other:hs"
	r.open()
	if _, err := r.Authenticate(ctx, "admin", "administrator", "::1"); KindOf(err) != KindUnauthorized {
		t.Errorf("the old password: %v", err)
	}
	v, err := r.Authenticate(ctx, "Admin", "changed password", "::1")
	if err != nil || v.UserID != first || !v.Admin {
		t.Errorf("the new password: %+v, %v", v, err)
	}
	if u, _ := r.User(ctx, v, first); u.MatrixID != "@other:hs" {
		t.Errorf("%+v", u)
	}
	if _, _, err := r.SessionViewer(ctx, s.Token); KindOf(err) != KindUnauthorized {
		t.Errorf("a session from before: %v", err)
	}
}

func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withAdmin)
		s, err := r.Login(ctx, "admin", "administrator", "::1")
		if err != nil || len(s.Token) < 40 || s.CSRF == "" {
			t.Fatalf("%+v, %v", s, err)
		}
		other, _ := r.Login(ctx, "admin", "administrator", "::1")
		v, got, err := r.SessionViewer(ctx, s.Token)
		if err != nil || v != r.admin || got.CSRF != s.CSRF {
			t.Errorf("%+v %+v, %v", v, got, err)
		}
		if err := r.Logout(ctx, s.Token); err != nil {
			t.Error(err)
		}
		if _, _, err := r.SessionViewer(ctx, s.Token); KindOf(err) != KindUnauthorized {
			t.Errorf("after the logout: %v", err)
		}
		r.close()
		r.open()
		if _, _, err := r.SessionViewer(ctx, other.Token); err != nil {
			t.Errorf("after a restart: %v", err)
		}
		time.Sleep(account.SessionFor + time.Second)
		if _, _, err := r.SessionViewer(ctx, other.Token); KindOf(err) != KindUnauthorized {
			t.Errorf("after a week: %v", err)
		}
	})
}

func TestFailedAttemptsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withAdmin)
		r.user("anna")
		fail := func(name, address string, n int) (limited int) {
			for range n {
				if _, err := r.Authenticate(ctx, name, "wrong password", address); KindOf(err) == KindRateLimited {
					limited++
				}
			}
			return limited
		}
		if n := fail("anna", "192.0.2.1", 15); n != 5 {
			t.Errorf("%d of 15 were held off, want 5", n)
		}
		if _, err := r.Authenticate(ctx, "anna", "password of anna", "192.0.2.1"); KindOf(err) != KindRateLimited {
			t.Errorf("the right password right after: %v", err)
		}
		if _, err := r.Authenticate(ctx, "anna", "password of anna", "192.0.2.2"); err != nil {
			t.Errorf("from elsewhere: %v", err)
		}
		if _, err := r.Authenticate(ctx, "anna", "password of anna", "192.0.2.1"); KindOf(err) != KindRateLimited {
			t.Errorf("the right password, verified a moment ago from elsewhere: %v", err)
		}
		fail("anna", "192.0.2.1", 200)
		if _, err := r.Authenticate(ctx, "anna", "password of anna", "192.0.2.3"); err != nil {
			t.Errorf("from elsewhere, while one address goes on and on: %v", err)
		}
		time.Sleep(time.Minute)
		for i := range 100 {
			if _, err := r.Authenticate(ctx, "admin", "administrator", "192.0.2.1"); err != nil {
				t.Fatalf("success %d: %v", i, err)
			}
		}
		if n := fail("anna", "2001:db8::1", 10) + fail("anna", "2001:db8::2", 5); n != 5 {
			t.Errorf("two addresses of one network: %d held off, want 5", n)
		}
	})
}

// Names that differ in case only are the same to whoever logs in, in every alphabet.
func TestNamesThatDifferInCase(t *testing.T) {
	r := newRig(t)
	r.user("Jürgen")
	other := r.user("other")
	in := UserInput{Name: p("JÜRGEN"), Password: p("another password")}
	if _, err := r.CreateUser(ctx, r.admin, in); KindOf(err) != KindConflict {
		t.Errorf("a second one is made: %v", err)
	}
	if _, err := r.UpdateUser(ctx, r.admin, other.UserID, UserInput{Name: p("jürgen")}); KindOf(err) != KindConflict {
		t.Errorf("a second one gets the name: %v", err)
	}
	if u, err := r.UpdateUser(ctx, r.admin, other.UserID, UserInput{Name: p("OTHER")}); err != nil || u.Name != "OTHER" {
		t.Errorf("the own name cannot be written otherwise: %v", err)
	}
}
