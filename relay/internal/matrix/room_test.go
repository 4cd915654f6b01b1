package matrix

import (
	"fmt"
	"strings"
	"testing"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

func TestCreateMakesARoomForTheOwner(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	info, err := w.bot.Info(w.ctx, room)
	w.must(err)
	if !info.Joined || !info.Writable || info.Encrypted || info.Name != "hall" {
		t.Errorf("info = %+v", info)
	}
	joined, err := w.bot.Joined(w.ctx)
	w.must(err)
	if len(joined) != 1 || joined[0] != room {
		t.Errorf("joined = %q", joined)
	}
	_, err = w.bot.Create(w.ctx, NewRoom{Name: "x", Invite: []string{"nobody"}})
	w.wantClass(err, ClassBlock)
}

func TestResolve(t *testing.T) {
	w := newWorld(t)
	w.connect()
	alias := "#" + w.name + "hall/+é:localhost"
	room := w.ownersRoom(map[string]any{"room_alias_name": w.name + "hall/+é", "preset": "public_chat"})
	for address, want := range map[string]string{alias: room, room: room, "!opaque": "!opaque"} {
		got, err := w.bot.Resolve(w.ctx, address)
		w.must(err)
		if got != want {
			t.Errorf("Resolve(%s) = %s, want %s", address, got, want)
		}
	}
	for _, address := range []string{"#nowhere:localhost", "room", "#", "@user:localhost"} {
		_, err := w.bot.Resolve(w.ctx, address)
		w.wantClass(err, ClassBlock)
	}
	// A public room is entered by its id.
	w.must(w.bot.Join(w.ctx, room))
	_, err := w.send(room, "t1", "hello")
	w.must(err)
	w.wantBodies(room, "hello")
}

func TestInfo_MayNotifyTheRoom(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.ownersRoom(map[string]any{"room_version": "11", "invite": []string{w.bot.UserID()}})
	w.must(w.bot.Join(w.ctx, room))
	me := w.bot.UserID()
	for _, tt := range []struct {
		levels           map[string]any
		writes, notifies bool
	}{
		{map[string]any{"users": map[string]int{w.owner.ID: 100}}, true, false},
		{map[string]any{"users": map[string]int{w.owner.ID: 100, me: 50}}, true, true},
		{map[string]any{"users": map[string]int{w.owner.ID: 100, me: 50}, "notifications": map[string]int{"room": 60}}, true, false},
		{map[string]any{"users": map[string]int{w.owner.ID: 100}, "notifications": map[string]int{"room": 0}}, true, true},
		{map[string]any{"users": map[string]int{w.owner.ID: 100}, "notifications": map[string]int{"room": 0}, "events_default": 10}, false, false},
	} {
		w.must(w.owner.SetState(w.ctx, room, "m.room.power_levels", tt.levels))
		info, err := w.bot.Info(w.ctx, room)
		w.must(err)
		if info.Writable != tt.writes || info.Notifies != tt.notifies {
			t.Errorf("%v: writes %v, notifies %v", tt.levels, info.Writable, info.Notifies)
		}
	}
	info, err := w.bot.Info(w.ctx, w.room()) // the bot's own
	w.must(err)
	if !info.Notifies {
		t.Errorf("in its own room: %+v", info)
	}
}

func TestMembership(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	want := func(room, user, membership string) {
		t.Helper()
		if got, err := w.bot.membership(w.ctx, room, user); got != membership || err != nil {
			t.Errorf("%s is %q, want %q (%v)", user, got, membership, err)
		}
	}
	want(room, w.owner.ID, "join")
	want(room, "@"+w.name+"nobody:localhost", "")
	w.must(w.owner.Call(w.ctx, "POST", "/_matrix/client/v3/rooms/"+room+"/leave", struct{}{}, nil))
	want(room, w.owner.ID, "leave")
	w.must(w.bot.invite(w.ctx, room, w.owner.ID))
	want(room, w.owner.ID, "invite")
	_, err := w.bot.membership(w.ctx, w.ownersRoom(nil), w.owner.ID)
	w.wantClass(err, ClassJoin)
}

// Members who come and go are told.
func TestMembersAreTold(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	w.run(w.bot)
	w.eventually("the owner is there", w.heard.has("member "+room+" "+w.owner.ID+" join"))
	w.must(w.owner.Call(w.ctx, "POST", "/_matrix/client/v3/rooms/"+room+"/leave", struct{}{}, nil))
	w.eventually("the owner has left", w.heard.has("member "+room+" "+w.owner.ID+" leave"))
}

func TestEncryptedRoomGetsNoPlaintext(t *testing.T) {
	w := newWorld(t)
	w.connect()
	encryption := map[string]string{"algorithm": "m.megolm.v1.aes-sha2"}
	seal := func(room string) { w.must(w.owner.SetState(w.ctx, room, "m.room.encryption", encryption)) }

	before := w.room() // encrypted before the first send
	seal(before)
	_, err := w.send(before, "t1", "secret one")
	w.wantClass(err, ClassEncrypted)

	w.run(w.bot)
	w.eventually("sync begins", func() bool { return len(w.proxy.Records("/sync")) > 1 })
	between := w.room() // encrypted between two sends
	_, err = w.send(between, "t2", "in the open")
	w.must(err)
	seal(between)
	w.eventually("sync reports it", w.heard.has("encrypted "+between))
	_, err = w.send(between, "t3", "secret two")
	w.wantClass(err, ClassEncrypted)

	// The next start knows it from the rules, or looks.
	w.bot = w.newBot(Options{Username: w.name + "bot", Password: "bot-password"})
	w.connect()
	_, err = w.send(between, "t3", "secret two")
	w.wantClass(err, ClassEncrypted)
	_, err = w.bot.Send(w.ctx, Outgoing{RoomID: w.room(), TxnID: "t4", Device: w.bot.Device(), EventType: "m.room.message", Content: text("secret three", "t4"), Encrypted: true})
	w.wantClass(err, ClassEncrypted)

	for _, r := range w.proxy.Records("/") {
		if strings.Contains(r.Body, "secret") {
			t.Errorf("plaintext on the wire: %s %s", r.Method, r.Path)
		}
	}
	info, err := w.bot.Info(w.ctx, between)
	w.must(err)
	if !info.Encrypted {
		t.Errorf("info = %+v", info)
	}
}

// Invitations of strangers that come and go leave nothing behind.
func TestUnknownRoomsAreNotRemembered(t *testing.T) {
	c, err := New(Options{Homeserver: "http://127.0.0.1:1", AccessToken: "t", Store: newStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	me := "@bot:hs"
	for i := range 100 {
		e := &event.Event{Type: event.StateMember, StateKey: &me, Sender: "@stranger:hs", Content: event.Content{Raw: map[string]any{"membership": "leave"}}}
		e.Unsigned.PrevContent = &event.Content{Raw: map[string]any{"membership": "invite"}}
		left := &mautrix.SyncLeftRoom{Timeline: mautrix.SyncTimeline{SyncEventsList: mautrix.SyncEventsList{Events: []*event.Event{e}}}}
		if heard := c.takeLeave(t.Context(), id.UserID(me), fmt.Sprintf("!%d:hs", i), left); len(heard) != 0 {
			t.Errorf("heard %v", heard)
		}
	}
	if n := len(c.rooms.known); n > 0 {
		t.Errorf("%d rooms are remembered", n)
	}
}

// TestRights: a member's rights follow from the levels of the event that is sent, and from the room's version.
func TestRights(t *testing.T) {
	w := newWorld(t)
	w.connect()
	want := func(what, room, user string, want Rights) {
		t.Helper()
		w.bot.rooms.forgetChecks()
		if got, err := w.bot.rights(w.ctx, room, user); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, want)
		}
	}
	for _, version := range []string{"11", "12"} {
		room := w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}, "room_version": version})
		w.must(w.bot.Join(w.ctx, room))
		levels := map[string]any{"events_default": 20, "users_default": 20, "events": map[string]int{"m.room.encrypted": 60}, "notifications": map[string]int{"room": 70}}
		if version == "11" {
			levels["users"] = map[string]int{w.owner.ID: 100}
		}
		w.must(w.owner.SetState(w.ctx, room, "m.room.power_levels", levels))
		want(version+" creator", room, w.owner.ID, Rights{Write: true, Notify: true})
		want(version+" member", room, "@other:localhost", Rights{Write: true})
		w.must(w.owner.SetState(w.ctx, room, "m.room.encryption", map[string]string{"algorithm": "m.megolm.v1.aes-sha2"}))
		want(version+" creator, encrypted", room, w.owner.ID, Rights{Write: true, Notify: true})
		want(version+" member, encrypted", room, "@other:localhost", Rights{})
	}
}

// Any number of rooms is listed in one request.
func TestJoinedRooms(t *testing.T) {
	w := newWorld(t)
	w.connect()
	named := w.room()
	encrypted := w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}, "initial_state": []map[string]any{
		{"type": "m.room.encryption", "state_key": "", "content": map[string]string{"algorithm": "m.megolm.v1.aes-sha2"}},
	}})
	w.must(w.bot.Join(w.ctx, encrypted))
	for i := range 30 { // more than a page of events
		if _, err := w.send(named, fmt.Sprintf("t%d", i), "m"); err != nil {
			t.Fatal(err)
		}
	}
	w.proxy.Forget()
	rooms, err := w.bot.JoinedRooms(w.ctx)
	w.must(err)
	if n := len(w.proxy.Records("")); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	got := map[string]RoomInfo{}
	for _, r := range rooms {
		got[r.RoomID] = r
	}
	if len(rooms) != 2 || got[named].Name != "hall" || got[named].Encrypted || got[encrypted].Name != "owner's" || !got[encrypted].Encrypted || !got[encrypted].Joined {
		t.Errorf("rooms %+v", rooms)
	}
}
