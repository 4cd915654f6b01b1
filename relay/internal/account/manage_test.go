package account_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
	"slipway/relay/internal/store"
)

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		strict, err := r.CreateApplication(ctx, r.Admin, account.ApplicationInput{Name: p("strict"), Room: p("!a:hs"), StrictCompatibility: p(true)})
		if err != nil || !regexp.MustCompile(`^A[0-9A-Za-z]{14}$`).MatchString(strict.Token) {
			t.Errorf("strict token %q, %v", strict.Token, err)
		}
		app := r.NewApp("a", "!a:hs")
		if !regexp.MustCompile(`^A[0-9A-Za-z]{29}$`).MatchString(app.Token) {
			t.Errorf("token %q", app.Token)
		}
		valid := func(token string) bool {
			_, err := r.TokenViewer(ctx, token)
			return err == nil
		}
		second, err := r.RegenerateToken(ctx, r.Admin, app.Application.ID, time.Hour)
		if err != nil || !valid(app.Token) || !valid(second.Token) {
			t.Errorf("within the time of grace: %v; old %v, new %v", err, valid(app.Token), valid(second.Token))
		}
		time.Sleep(61 * time.Minute)
		if valid(app.Token) || !valid(second.Token) {
			t.Errorf("after it: old %v, new %v", valid(app.Token), valid(second.Token))
		}
		leaked, err := r.RegenerateToken(ctx, r.Admin, app.Application.ID, time.Hour)
		if err != nil || !valid(second.Token) || !valid(leaked.Token) {
			t.Errorf("within the time of grace again: %v; old %v, new %v", err, valid(second.Token), valid(leaked.Token))
		}
		third, err := r.RegenerateToken(ctx, r.Admin, app.Application.ID, 0) // ends the grace of the token before, too
		if err != nil || valid(second.Token) || valid(leaked.Token) || !valid(third.Token) {
			t.Errorf("without grace: %v; older %v, old %v, new %v", err, valid(second.Token), valid(leaked.Token), valid(third.Token))
		}
		r.Shutdown()
		r.Open()
		if valid(app.Token) || valid(second.Token) || !valid(third.Token) || !valid(strict.Token) {
			t.Error("a restart changed which tokens are valid")
		}
		if err := r.DeleteApplication(ctx, r.Admin, app.Application.ID); err != nil || valid(third.Token) {
			t.Errorf("deleted: %v; the token is valid: %v", err, valid(third.Token))
		}
	})
}

func TestLenientTokens(t *testing.T) {
	r := relaytest.NewRig(t, func(o *service.Options) { o.Accounts.CheckToken = false })
	app := r.NewApp("a", "!a:hs")
	if _, err := r.RegenerateToken(ctx, r.Admin, app.Application.ID, r.DefaultGrace()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.TokenViewer(ctx, " "+app.Token+"\n"); err != nil {
		t.Errorf("the token before, with space around it: %v", err)
	}
	if _, err := r.TokenViewer(ctx, app.Token+"x"); refusal.KindOf(err) != refusal.KindUnauthorized {
		t.Errorf("another token: %v", err)
	}
}

func TestDeletedApplicationIsGone(t *testing.T) {
	r := relaytest.NewRig(t)
	r.HS.ProbeErr = &matrix.SendError{Class: matrix.ClassAway}
	r.Start()
	gone, stays := r.NewApp("gone", "!a:hs"), r.NewApp("stays", "!a:hs")
	var ids []int64
	for i := range 100 {
		ids = append(ids, r.Post([]account.IssuedToken{gone, stays}[i%2].Token, fmt.Sprint(i)))
	}
	if err := r.DeleteApplication(ctx, r.Admin, gone.Application.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Message(ctx, r.Admin, ids[0]); refusal.KindOf(err) != refusal.KindNotFound {
		t.Errorf("its message: %v", err)
	}
	if _, err := r.Application(ctx, r.Admin, gone.Application.ID); refusal.KindOf(err) != refusal.KindNotFound {
		t.Errorf("the application: %v", err)
	}
	r.HS.ComeBack()
	r.Delivery().Handle(matrix.Online{})
	r.Await(ids[99], post.StateSent)
	if got := r.HS.Bodies("!a:hs"); len(got) != 50 || slices.Contains(got, "0") {
		t.Errorf("the room has %d events: %q", len(got), got)
	}
	if again := r.NewApp("gone", "!a:hs"); again.Application.ID == gone.Application.ID {
		t.Error("the id was used again")
	}
	r.Drained()
}

func TestRoomOfTheBotsMaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.ProbeErr = &matrix.SendError{Class: matrix.ClassAway, Reason: "gone"}
		r.Start()
		app := r.NewApp("a", "")
		if app.Application.Room != "" || app.Application.RoomID != "" {
			t.Errorf("before the homeserver is there: %+v", app.Application)
		}
		id := r.Post(app.Token, "x")
		r.HS.ComeBack()
		if m, _ := r.Wait(ctx, r.Admin, id, time.Minute); m.State != post.StateSent || m.RoomID != "!made1:hs" {
			t.Errorf("after it: %+v", m)
		}
		if b := r.NewApp("b", ""); b.Application.RoomID != "!made2:hs" || b.Application.Room != "!made2:hs" {
			t.Errorf("with a homeserver: %+v", b.Application)
		}
		r.Shutdown()
		r.Open()
		r.Start()
		r.Wait(ctx, r.Admin, r.Post(app.Token, "y"), time.Minute)
		if r.HS.Made != 2 {
			t.Errorf("%d rooms were made", r.HS.Made)
		}
	})
}

func TestAliasIsLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		app := r.NewApp("a", "#room:hs")
		id := r.Post(app.Token, "x")
		r.Start()
		if m, _ := r.Wait(ctx, r.Admin, id, time.Minute); m.State != post.StateSent || m.RoomID != "!resolved-room:hs" || m.Address != "#room:hs" {
			t.Errorf("%+v", m)
		}
	})
}

// An administrator who goes leaves nothing behind that keeps the account, as long as
// there is another one; who is gone makes no application.
func TestAdministratorDeletesItself(t *testing.T) {
	r := relaytest.NewRig(t)
	other := r.StoreUser(store.User{Name: "other", IsAdmin: true})
	r.NewApp("a", "!a:hs")
	if err := r.DeleteUser(ctx, r.Admin, r.Admin.UserID); err != nil {
		t.Fatal(err)
	}
	if users, _ := r.Users(ctx, relaytest.Principal(other)); len(users) != 1 || users[0].ID != other.ID {
		t.Errorf("the users are %+v", users)
	}
	if apps, _ := r.Applications(ctx, relaytest.Principal(other)); len(apps) != 0 {
		t.Errorf("applications of the one who is gone: %+v", apps)
	}
	if _, err := r.CreateApplication(ctx, r.Admin, account.ApplicationInput{Name: p("b")}); refusal.KindOf(err) != refusal.KindInvalid {
		t.Errorf("an application of nobody's: %v", err)
	}
}

func TestAdministratorFollowsTheConfiguration(t *testing.T) {
	r := relaytest.NewRig(t, relaytest.WithAdmin)
	first := r.Admin.UserID
	s, err := r.Login(ctx, "admin", "administrator", "::1")
	if err != nil {
		t.Fatal(err)
	}
	r.Shutdown()
	r.Options.Accounts.Admin.Password, r.Options.Accounts.Admin.MatrixID = "changed password", "@other:hs"
	r.Open()
	if _, err := r.Authenticate(ctx, "admin", "administrator", "::1"); refusal.KindOf(err) != refusal.KindUnauthorized {
		t.Errorf("the old password: %v", err)
	}
	v, err := r.Authenticate(ctx, "Admin", "changed password", "::1")
	if err != nil || v.UserID != first || !v.Admin {
		t.Errorf("the new password: %+v, %v", v, err)
	}
	if u, _ := r.User(ctx, v, first); u.MatrixID != "@other:hs" {
		t.Errorf("%+v", u)
	}
	if _, _, err := r.SessionViewer(ctx, s.Token); refusal.KindOf(err) != refusal.KindUnauthorized {
		t.Errorf("a session from before: %v", err)
	}
}

func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, relaytest.WithAdmin)
		s, err := r.Login(ctx, "admin", "administrator", "::1")
		if err != nil || len(s.Token) < 40 || s.CSRF == "" {
			t.Fatalf("%+v, %v", s, err)
		}
		other, _ := r.Login(ctx, "admin", "administrator", "::1")
		v, got, err := r.SessionViewer(ctx, s.Token)
		if err != nil || v != r.Admin || got.CSRF != s.CSRF {
			t.Errorf("%+v %+v, %v", v, got, err)
		}
		if err := r.Logout(ctx, s.Token); err != nil {
			t.Error(err)
		}
		if _, _, err := r.SessionViewer(ctx, s.Token); refusal.KindOf(err) != refusal.KindUnauthorized {
			t.Errorf("after the logout: %v", err)
		}
		r.Shutdown()
		r.Open()
		if _, _, err := r.SessionViewer(ctx, other.Token); err != nil {
			t.Errorf("after a restart: %v", err)
		}
		var stored []byte
		if r.Exec(`SELECT token_hash FROM sessions`, &stored); bytes.Contains(stored, []byte(other.Token[:10])) {
			t.Errorf("the database has the token %q", stored)
		}
		time.Sleep(account.SessionFor + time.Second)
		if _, _, err := r.SessionViewer(ctx, other.Token); refusal.KindOf(err) != refusal.KindUnauthorized {
			t.Errorf("after a week: %v", err)
		}
	})
}

func TestFailedAttemptsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, relaytest.WithAdmin)
		r.NewUser("anna")
		fail := func(name, address string, n int) (limited int) {
			for range n {
				if _, err := r.Authenticate(ctx, name, "wrong password", address); refusal.KindOf(err) == refusal.KindRateLimited {
					limited++
				}
			}
			return limited
		}
		if n := fail("anna", "192.0.2.1", 15); n != 5 {
			t.Errorf("%d of 15 were held off, want 5", n)
		}
		want := `
# HELP relay_failed_logins_total Logins with a name and a password that failed: wrong, or limited after too many of them.
# TYPE relay_failed_logins_total counter
relay_failed_logins_total{reason="limited"} 5
relay_failed_logins_total{reason="wrong"} 10
`
		if err := testutil.GatherAndCompare(r.Metrics, strings.NewReader(want), "relay_failed_logins_total"); err != nil {
			t.Error(err)
		}
		if _, err := r.Authenticate(ctx, "anna", "password of anna", "192.0.2.1"); refusal.KindOf(err) != refusal.KindRateLimited {
			t.Errorf("the right password right after: %v", err)
		}
		if _, err := r.Authenticate(ctx, "anna", "password of anna", "192.0.2.2"); err != nil {
			t.Errorf("from elsewhere: %v", err)
		}
		if _, err := r.Authenticate(ctx, "anna", "password of anna", "192.0.2.1"); refusal.KindOf(err) != refusal.KindRateLimited {
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

// TestNames_Case: names that differ only in case are one name at login, in every alphabet.
func TestNamesThatDifferInCase(t *testing.T) {
	r := relaytest.NewRig(t)
	r.NewUser("Jürgen")
	other := r.NewUser("other")
	in := account.UserInput{Name: p("JÜRGEN"), Password: p("another password")}
	if _, err := r.CreateUser(ctx, r.Admin, in); refusal.KindOf(err) != refusal.KindConflict {
		t.Errorf("a second one is made: %v", err)
	}
	if _, err := r.UpdateUser(ctx, r.Admin, other.UserID, account.UserInput{Name: p("jürgen")}); refusal.KindOf(err) != refusal.KindConflict {
		t.Errorf("a second one gets the name: %v", err)
	}
	if u, err := r.UpdateUser(ctx, r.Admin, other.UserID, account.UserInput{Name: p("OTHER")}); err != nil || u.Name != "OTHER" {
		t.Errorf("the own name cannot be written otherwise: %v", err)
	}
}

// Each application may make a room, so a user has a bounded number; administrators are free, and what is deleted counts no more.
func TestCreateApplication_TooMany(t *testing.T) {
	r := relaytest.NewRig(t, func(o *service.Options) { o.Accounts.MaxApplications = 2 })
	u, err := r.CreateUser(ctx, r.Admin, account.UserInput{Name: p("u"), Password: p("password")})
	if err != nil {
		t.Fatal(err)
	}
	user := account.Principal{UserID: u.ID, Name: u.Name}
	create := func(v account.Principal, name string, owner *int64) (int64, error) {
		issued, err := r.CreateApplication(ctx, v, account.ApplicationInput{Name: &name, OwnerID: owner})
		return issued.Application.ID, err
	}
	first, err := create(user, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := create(user, "b", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := create(user, "c", nil); refused(err).Kind != refusal.KindConflict || !strings.Contains(err.Error(), "2 applications (limits.applications)") {
		t.Errorf("one too many: %v", err)
	}
	if _, err := create(r.Admin, "c", &u.ID); err != nil {
		t.Errorf("an administrator for the user: %v", err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if _, err := create(r.Admin, name, nil); err != nil {
			t.Errorf("an administrator: %v", err)
		}
	}
	if err := r.DeleteApplication(ctx, user, first); err != nil {
		t.Fatal(err)
	}
	if _, err := create(user, "d", nil); err == nil {
		t.Error("one of three was deleted, and a third is made")
	}
}

// Rooms outlive their applications, so those that are made for a user in a day are bounded, too, also by a relay that starts again.
func TestCreateApplication_TooManyRooms(t *testing.T) {
	const limit = 3
	r := relaytest.NewRig(t, func(o *service.Options) { o.Accounts.MaxApplications = limit })
	u, err := r.CreateUser(ctx, r.Admin, account.UserInput{Name: p("u"), Password: p("password")})
	if err != nil {
		t.Fatal(err)
	}
	user := account.Principal{UserID: u.ID, Name: u.Name}
	again := func(v account.Principal, room *string) error {
		issued, err := r.CreateApplication(ctx, v, account.ApplicationInput{Name: p("a"), Room: room})
		if err != nil {
			return err
		}
		return r.DeleteApplication(ctx, v, issued.Application.ID)
	}
	for i := range limit {
		if err := again(user, nil); err != nil {
			t.Fatal(i, err)
		}
	}
	got := refused(again(user, nil))
	if got.Kind != refusal.KindRateLimited || got.RetryAfter <= 0 || got.RetryAfter > 24*time.Hour/limit || !strings.Contains(got.Message, "3 rooms a day") {
		t.Errorf("one too many: %+v", got)
	}
	if _, err := r.UpdateUser(ctx, r.Admin, u.ID, account.UserInput{Password: p("another password")}); err != nil {
		t.Fatal(err)
	}
	if err := again(user, nil); refused(err).Kind != refusal.KindRateLimited {
		t.Errorf("after a change of the user: %v", err)
	}
	for range limit + 1 {
		if err := again(r.Admin, nil); err != nil {
			t.Errorf("an administrator: %v", err)
		}
	}
}
