package matrix

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
)

// A room is made once under its key, whatever happened to the answer.
func TestCreate_RepeatedWithItsKey_FindsTheRoom(t *testing.T) {
	w := newWorld(t)
	w.connect()
	for name, fault := range map[string]servertest.Fault{
		"no fault":    nil,
		"answer lost": servertest.DropAnswer(),
		"never made":  servertest.Drop(),
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, ctx: w.ctx, server: w.server, proxy: w.proxy, owner: w.owner, db: w.db, heard: w.heard, bot: w.bot, name: w.name}
			before, err := w.bot.Joined(w.ctx)
			w.must(err)
			n := NewRoom{Key: rand.Text(), Name: "hall", Invite: []string{w.owner.ID}}
			if fault != nil {
				w.proxy.Script(servertest.Rule{Path: "/createRoom", Times: 1, Fault: fault})
				_, err := w.bot.Create(w.ctx, n)
				w.wantClass(err, ClassRetry)
			}
			first, err := w.bot.Create(w.ctx, n)
			w.must(err)
			w.bot = w.newBot(Options{Username: w.name + "bot", Password: "bot-password"}) // the next process
			w.connect()
			again, err := w.bot.Create(w.ctx, n)
			w.must(err)
			after, err := w.bot.Joined(w.ctx)
			w.must(err)
			if first != again || len(after) != len(before)+1 || !slices.Contains(after, first) {
				t.Errorf("rooms %s and %s; %d rooms before, %d after", first, again, len(before), len(after))
			}
			w.must(w.owner.Join(w.ctx, first)) // invited
			other, err := w.bot.Create(w.ctx, NewRoom{Key: rand.Text(), Name: "hall"})
			w.must(err)
			if other == first {
				t.Error("another key, the same room")
			}
		})
	}
}

// An owner who could not be invited when the room was made is invited later.
func TestCreate_OwnerNotInvitedYet(t *testing.T) {
	w := newWorld(t)
	w.connect()
	n := NewRoom{Key: rand.Text(), Name: "hall", Invite: []string{w.owner.ID}}
	_, err := w.bot.Create(w.ctx, NewRoom{Key: n.Key, Name: n.Name}) // the homeserver ended before it invited
	w.must(err)
	w.proxy.Script(servertest.Rule{Path: "/invite", Times: 1, Fault: servertest.Matrix(500, "M_UNKNOWN")})
	_, err = w.bot.Create(w.ctx, n)
	if failed := w.wantClass(err, ClassRetry); !strings.Contains(failed.Reason, w.owner.ID) {
		t.Errorf("reason %q", failed.Reason)
	}
	w.proxy.Script(servertest.Rule{Path: "/invite", Times: 1, Fault: servertest.Matrix(403, "M_FORBIDDEN")})
	_, err = w.bot.Create(w.ctx, n)
	w.wantClass(err, ClassBlock)
	room, err := w.bot.Create(w.ctx, n)
	w.must(err)
	w.must(w.owner.Join(w.ctx, room))
	again, err := w.bot.Create(w.ctx, n) // nobody to invite
	w.must(err)
	if joined, _ := w.bot.Joined(w.ctx); again != room || len(joined) != 1 {
		t.Errorf("rooms %s and %s, %d in all", room, again, len(joined))
	}
}

// A room whose making was given up has an alias before the bot is in it.
func TestCreate_StillBeingMade_IsAwaited(t *testing.T) {
	w := newWorld(t)
	w.connect()
	n := NewRoom{Key: rand.Text(), Name: "hall"}
	room, err := w.bot.Create(w.ctx, n)
	w.must(err)
	w.proxy.Script(servertest.Rule{Path: "/state/m.room.create", Times: 2, Fault: servertest.Matrix(403, "M_FORBIDDEN")})
	if again, err := w.bot.Create(w.ctx, n); again != room {
		t.Errorf("room %q, %v; want %s", again, err, room)
	}
	w.proxy.Script(servertest.Rule{Path: "/state/m.room.create", Fault: servertest.Matrix(403, "M_FORBIDDEN")})
	short, cancel := context.WithTimeout(w.ctx, time.Second)
	defer cancel()
	_, err = w.bot.Create(short, n)
	w.wantClass(err, ClassRetry)
}

// A stranger with the alias of a key gets no messages.
func TestCreate_AliasOfSomebodyElse_IsRefused(t *testing.T) {
	w := newWorld(t)
	w.connect()
	w.bot.creationWithin = 0
	key := rand.Text()
	theirs := w.ownersRoom(map[string]any{"room_alias_name": "slipway-" + strings.ToLower(key), "invite": []string{w.bot.UserID()}})
	for _, step := range []string{"outside", "inside"} {
		_, err := w.bot.Create(w.ctx, NewRoom{Key: key, Name: "hall"})
		if failed := w.wantClass(err, ClassBlock); !strings.Contains(failed.Reason, "not the bot's") {
			t.Errorf("%s: reason %q", step, failed.Reason)
		}
		w.must(w.bot.Join(w.ctx, theirs))
	}
}

// A homeserver without aliases still makes rooms, and is not asked for an alias again.
func TestCreate_WithoutAliases(t *testing.T) {
	w := newWorld(t)
	w.connect()
	w.proxy.Script(servertest.Rule{Path: "/createRoom", Times: 1, Fault: servertest.Matrix(403, "M_FORBIDDEN")})
	first, err := w.bot.Create(w.ctx, NewRoom{Key: rand.Text(), Name: "one"})
	w.must(err)
	second, err := w.bot.Create(w.ctx, NewRoom{Key: rand.Text(), Name: "two"})
	w.must(err)
	var aliases int
	made := w.proxy.Records("/createRoom")
	for _, r := range made {
		aliases += strings.Count(r.Body, "room_alias_name")
	}
	if first == second || len(made) != 3 || aliases != 1 {
		t.Errorf("rooms %s and %s by %d requests, %d with an alias", first, second, len(made), aliases)
	}
}

// A room is encrypted if that is asked for and the bot can encrypt; if it cannot, the log has the reason.
func TestCreate_Encrypted(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct {
		options   Options
		encrypted bool
		logged    string
	}{
		"asked for":     {Options{EncryptNewRooms: true, PickleKey: []byte("a key for tests")}, builtWithEncryption, ""},
		"without key":   {Options{EncryptNewRooms: true}, false, "matrix.pickle_key is not set"},
		"not asked for": {Options{PickleKey: []byte("a key for tests")}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := tt.options
			o.Username, o.Password = w.name+"bot", "bot-password"
			w.bot = w.newBot(o)
			w.connect()
			w.logs.TakeAll()
			room, err := w.bot.Create(w.ctx, NewRoom{Key: rand.Text(), Name: "hall", Invite: []string{w.owner.ID}})
			w.must(err)
			w.must(w.owner.Join(w.ctx, room))
			var rules struct{ Algorithm string }
			err = w.owner.Call(w.ctx, "GET", "/_matrix/client/v3/rooms/"+room+"/state/m.room.encryption", nil, &rules)
			if (err == nil) != tt.encrypted || tt.encrypted && rules.Algorithm != "m.megolm.v1.aes-sha2" {
				t.Errorf("encryption is %q, %v", rules.Algorithm, err)
			}
			reason := ""
			for _, e := range w.logs.FilterMessage("made a room without encryption").All() {
				reason, _ = e.ContextMap()["reason"].(string)
			}
			if reason != tt.logged {
				t.Errorf("the log says %q, want %q", reason, tt.logged)
			}
			if info, err := w.bot.Info(w.ctx, room); err != nil || info.Encrypted != tt.encrypted {
				t.Errorf("the room is known as encrypted %v, %v", info.Encrypted, err)
			}
		})
	}
}
