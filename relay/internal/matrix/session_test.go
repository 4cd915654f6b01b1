package matrix

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
)

func TestNewRefusesBadOptions(t *testing.T) {
	for _, o := range []Options{
		{},
		{Homeserver: "https://x"},
		{Homeserver: "https://x", Username: "bot"},
		{Homeserver: "x.example", AccessToken: "t"},
		{Homeserver: "ftp://x", AccessToken: "t"},
		{Homeserver: "://", AccessToken: "t"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("New(%+v) says nothing", o)
		}
	}
}

func TestAnotherAccountIsAnotherSession(t *testing.T) {
	w := newWorld(t)
	w.connect()
	w.db.SetSetting(w.ctx, settingSync, "s1")
	w.must(w.server.CreateUser(w.ctx, w.name+"other", "bot-password", false))
	w.bot = w.newBot(Options{Username: w.name + "other", Password: "bot-password"})
	w.connect()
	if got, want := w.bot.UserID(), "@"+w.name+"other:localhost"; got != want {
		t.Errorf("user %s, want %s", got, want)
	}
	if got, err := w.db.Setting(w.ctx, settingSync); got != "" || err != nil {
		t.Errorf("the sync position of the other account is kept: %s", got)
	}
}

func TestFull_SoftLogoutKeepsTheDevice(t *testing.T) {
	w := newWorld(t)
	w.connect()
	device, room := w.bot.Device(), w.room()
	w.proxy.Script(servertest.Rule{Method: "PUT", Path: "/send/", Times: 1, Fault: servertest.Answer(401, `{"errcode":"M_UNKNOWN_TOKEN","soft_logout":true}`)})
	_, err := w.send(room, "t1", "one")
	w.wantClass(err, ClassRelogin)
	_, err = w.send(room, "t1", "one")
	w.wantClass(err, ClassRelogin)
	w.connect()
	if w.bot.Device() != device {
		t.Errorf("device %s, was %s", w.bot.Device(), device)
	}
	_, err = w.send(room, "t1", "one")
	w.must(err)
	w.wantBodies(room, "one")
}

func TestFull_HardLogoutMakesANewDevice(t *testing.T) {
	w := newWorld(t)
	w.connect()
	device, room := w.bot.Device(), w.room()
	w.must(w.server.Call(w.ctx, w.bot.session.Load().Token, "POST", "/_matrix/client/v3/logout", struct{}{}, nil))
	out := Outgoing{RoomID: room, TxnID: "t1", Device: device, EventType: "m.room.message", Content: text("one", "t1")}
	_, err := w.bot.Send(w.ctx, out)
	w.wantClass(err, ClassRelogin)
	w.connect()
	if now := w.bot.Device(); now == device || now == "" {
		t.Errorf("device %q after the old one was ended", now)
	}
	// The homeserver cannot tell a repetition any more: nothing is sent.
	_, err = w.bot.Send(w.ctx, out)
	w.wantClass(err, ClassReconcile)
	_, err = w.bot.Redact(w.ctx, Redaction{RoomID: room, EventID: "$x", TxnID: "t1", Device: device})
	w.wantClass(err, ClassReconcile)
	w.wantBodies(room)
}

// Run finds out by itself that the session is over, and logs in again once.
func TestRunRenewsTheSession(t *testing.T) {
	w := newWorld(t)
	w.connect()
	w.run(w.bot)
	w.eventually("sync begins", func() bool { return len(w.proxy.Records("/sync")) > 1 })
	w.proxy.Forget()
	old := w.bot.session.Load()
	w.must(w.server.Call(w.ctx, old.Token, "POST", "/_matrix/client/v3/logout", struct{}{}, nil))
	w.eventually("a new session", func() bool { s := w.bot.session.Load(); return s != nil && s.Token != old.Token })
	if n := len(w.proxy.Records("/login")); n != 1 {
		t.Errorf("%d logins", n)
	}
	w.noSecrets("bot-password", old.Token, w.bot.session.Load().Token)
}

func TestWrongPasswordIsNoBusyLoop(t *testing.T) {
	w := newWorld(t)
	w.bot = w.newBot(Options{Username: w.name + "bot", Password: "wrong-password"})
	stop := w.run(w.bot)
	w.eventually("a refused login", func() bool { return w.loginClass() == ClassLocked })
	for range 50 {
		failed := w.wantClass(w.bot.Probe(w.ctx), ClassLocked)
		if !strings.Contains(failed.Reason, "password") {
			t.Fatalf("reason %q", failed.Reason)
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	logins := 0
	for _, r := range w.proxy.Records("/login") {
		if r.Method == http.MethodPost { // a GET asks what the homeserver offers
			logins++
		}
	}
	if logins != 1 {
		t.Errorf("%d logins in half a second", logins)
	}
	_, err := w.send("!x:localhost", "t", "x")
	w.wantClass(err, ClassLocked)
	w.noSecrets("wrong-password")
}

func TestLoginObeysTheRateLimit(t *testing.T) {
	w := newWorld(t)
	w.proxy.Script(servertest.Rule{Path: "/login", Times: 1, Fault: servertest.Matrix(429, "M_LIMIT_EXCEEDED", "Retry-After", "1")})
	w.run(w.bot)
	w.eventually("a session", func() bool { return w.bot.session.Load() != nil })
	r := w.proxy.Records("/login")
	if len(r) != 2 || r[1].At.Sub(r[0].At) < time.Second {
		t.Errorf("%d logins, the second after %v", len(r), r[len(r)-1].At.Sub(r[0].At))
	}
}

func TestAccessToken(t *testing.T) {
	w := newWorld(t)
	user, err := w.server.Login(w.ctx, w.name+"bot", "bot-password")
	w.must(err)
	w.bot = w.newBot(Options{AccessToken: user.Token})
	w.connect()
	if w.bot.UserID() != user.ID || w.bot.Device() != user.DeviceID {
		t.Errorf("session %s %s, want %s %s", w.bot.UserID(), w.bot.Device(), user.ID, user.DeviceID)
	}
	if kept, err := w.db.Setting(w.ctx, settingSession); err != nil || kept == "" || strings.Contains(kept, user.Token) {
		t.Errorf("the stored session is empty or holds the configured token (%v)", err)
	}
	_, err = w.send(w.room(), "t1", "one")
	w.must(err)

	w.must(w.server.Call(w.ctx, user.Token, "POST", "/_matrix/client/v3/logout", struct{}{}, nil))
	w.wantClass(w.bot.Probe(w.ctx), ClassRelogin)
	w.wantClass(w.bot.Probe(w.ctx), ClassLocked)
	w.bot = w.newBot(Options{AccessToken: w.owner.Token, Username: w.name + "bot"})
	failed := w.wantClass(w.bot.Probe(w.ctx), ClassLocked)
	if !strings.Contains(failed.Reason, w.owner.ID) {
		t.Errorf("reason %q does not name whose token it is", failed.Reason)
	}
}

// loginClass is why there is no session, "" if there is one.
func (w *world) loginClass() Class {
	var failed *SendError
	if _, err := w.bot.current(); errors.As(err, &failed) {
		return failed.Class
	}
	return ""
}

// Homeservers take a name in any case: the session of the last start is the configured account's.
func TestUsernameInAnotherCase(t *testing.T) {
	w := newWorld(t)
	w.connect()
	device := w.bot.Device()
	for _, name := range []string{strings.ToUpper(w.name + "bot"), "@" + strings.ToUpper(w.name+"bot") + ":localhost"} {
		w.bot = w.newBot(Options{Username: name, Password: "bot-password"})
		w.connect()
		if w.bot.Device() != device {
			t.Errorf("%s: device %s, was %s", name, w.bot.Device(), device)
		}
	}
}
