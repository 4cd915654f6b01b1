package matrix

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
)

func TestInvitations(t *testing.T) {
	w := newWorld(t)
	w.connect()
	stranger, err := w.server.NewUser(w.ctx, w.name+"stranger", false)
	w.must(err)
	theirs, err := stranger.CreateRoom(w.ctx, "theirs", []string{w.bot.UserID()}, nil)
	w.must(err)
	stop := w.run(w.bot)
	ours := w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}})
	w.eventually("the owner's invitation is taken", w.heard.has("joined "+ours))
	info, err := w.bot.Info(w.ctx, theirs)
	w.must(err)
	if info.Joined || !info.Invited {
		t.Errorf("the stranger's room: %+v", info)
	}
	stop()

	// The next start still knows of the invitation; its sender has become a user.
	addUser(t, w.db, stranger.ID)
	w.bot = w.newBot(Options{Username: w.name + "bot", Password: "bot-password"})
	w.run(w.bot)
	w.eventually("the stranger's invitation is taken", w.heard.has("joined "+theirs))
}

func TestInvitationFromAConfiguredServer(t *testing.T) {
	w := newWorld(t)
	w.db = newStore(t)
	w.bot = w.newBot(Options{Username: w.name + "bot", Password: "bot-password", InviteServers: []string{"localhost"}})
	w.connect()
	w.run(w.bot)
	room := w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}})
	w.eventually("the invitation is taken", w.heard.has("joined "+room))
}

func TestFull_AnInvitationIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.connect()
	w.proxy.Script(servertest.Rule{Path: "/join/", Times: 1, Fault: servertest.Matrix(429, "M_LIMIT_EXCEEDED", "Retry-After", "1")})
	w.run(w.bot)
	room := w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}})
	w.eventually("the invitation is taken", w.heard.has("joined "+room))
	if r := w.proxy.Records("/join/"); len(r) < 2 || r[1].At.Sub(r[0].At) < time.Second {
		t.Errorf("%d joins", len(r))
	}
}

func TestRemovalIsTold(t *testing.T) {
	w := newWorld(t)
	w.connect()
	w.run(w.bot)
	room := w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}})
	w.eventually("in the room", w.heard.has("joined "+room))
	w.must(w.owner.Call(w.ctx, "POST", "/_matrix/client/v3/rooms/"+room+"/kick", map[string]string{"user_id": w.bot.UserID(), "reason": "too loud"}, nil))
	w.eventually("kicked", w.heard.has("left "+room+" the bot was removed from the room by "+w.owner.ID+": too loud"))
	w.must(w.owner.Ban(w.ctx, room, w.bot.UserID()))
	w.eventually("banned", w.heard.has("left "+room+" the bot was banned from the room by "+w.owner.ID))
}

// That nothing is heard of the homeserver is told within 15 seconds: at once when it refuses, and also when it
// takes a request and never answers.
// Only the first sync leaves members out: later ones have joins and leaves.
func TestFilters(t *testing.T) {
	for text, lazy := range map[string]bool{firstFilter: true, filter: false} {
		var f struct {
			Room struct {
				State struct {
					Lazy  bool `json:"lazy_load_members"`
					Types []string
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &f); err != nil || f.Room.State.Lazy != lazy || !slices.Contains(f.Room.State.Types, "m.room.member") {
			t.Errorf("%+v, %v; want lazy %v", f, err, lazy)
		}
	}
}

func TestFull_OfflineIsTold(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]servertest.Fault{"refuses": servertest.Matrix(503, "M_UNKNOWN"), "hangs": servertest.Hang()} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.bot = w.newBot(Options{Username: w.name + "bot", Password: "bot-password", Timeout: time.Minute})
			w.connect()
			w.run(w.bot)
			w.eventually("in sync", w.heard.has("synced"))
			told := func(kind string) (n int) {
				for _, line := range w.heard.all() {
					if strings.HasPrefix(line, kind) {
						n++
					}
				}
				return n
			}
			w.proxy.Script(servertest.Rule{Path: "/sync", Fault: fault})
			_, err := w.send(w.room(), "t1", "wakes the poll that is under way")
			w.must(err)
			online := told("online")
			w.eventually("told", func() bool { return told("offline") > 0 })
			w.proxy.Script()
			w.proxy.Down() // ends what hangs
			w.must(w.proxy.Up())
			w.eventually("back", func() bool { return told("online") > online })
		})
	}
}

// After an outage sync continues from its position, also in another process.
func TestSyncGoesOnFromItsPosition(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}})
	stop := w.run(w.bot)
	w.eventually("in the room", w.heard.has("joined "+room))
	stop()
	w.must(w.owner.Kick(w.ctx, room, w.bot.UserID()))
	w.proxy.Forget()
	w.bot = w.newBot(Options{Username: w.name + "bot", Password: "bot-password"})
	w.run(w.bot)
	w.eventually("what happened meanwhile", w.heard.has("left "+room+" the bot was removed from the room by "+w.owner.ID))
	if first := w.proxy.Records("/sync")[0]; !strings.Contains(first.Query, "since=") {
		t.Errorf("the first sync has no position: %s", first.Query)
	}

	w.proxy.Down()
	time.Sleep(200 * time.Millisecond)
	w.must(w.owner.Invite(w.ctx, room, w.bot.UserID()))
	w.must(w.proxy.Up())
	w.eventually("in the room again", func() bool {
		joined, err := w.bot.Joined(w.ctx)
		return err == nil && slices.Contains(joined, room)
	})
}

func TestFull_UnknownPositionBeginsAnew(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	w.db.SetSetting(w.ctx, settingSync, "no such position")
	w.run(w.bot)
	w.eventually("the rooms are known", w.heard.has("joined "+room))
}

// A relay that was away during the upgrade finds it when it wants to send.
func TestFull_RoomUpgradeWhileAway(t *testing.T) {
	w := newWorld(t)
	w.connect()
	old := w.ownersRoom(map[string]any{"room_version": "11", "invite": []string{w.bot.UserID()}})
	w.must(w.bot.Join(w.ctx, old))
	now, err := w.owner.Upgrade(w.ctx, old, "12")
	w.must(err)
	_, err = w.send(old, "t1", "one")
	failed := w.wantClass(err, ClassBlock)
	if !strings.Contains(failed.Reason, now) || !strings.Contains(failed.Reason, "invite") {
		t.Errorf("reason %q", failed.Reason)
	}
	w.run(w.bot)
	w.must(w.owner.Invite(w.ctx, now, w.bot.UserID()))
	w.eventually("in the new room", w.heard.has("replaced "+old+" "+now))
	info, err := w.bot.Info(w.ctx, old)
	w.must(err)
	if info.ReplaceBy != now {
		t.Errorf("info = %+v", info)
	}
}

// A person who may close a room cannot redirect its messages to a room of others: that room must name the old one as its
// predecessor.
func TestTombstoneThatLeadsElsewhere(t *testing.T) {
	w := newWorld(t)
	w.connect()
	w.run(w.bot)
	mine := w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}})
	w.eventually("in the room", w.heard.has("joined "+mine))
	stranger, err := w.server.NewUser(w.ctx, w.name+"stranger", false)
	w.must(err)
	others, err := stranger.CreateRoom(w.ctx, "theirs", []string{w.bot.UserID()}, nil)
	w.must(err)
	w.must(w.bot.Join(w.ctx, others))
	w.must(w.owner.SetState(w.ctx, mine, "m.room.tombstone", map[string]any{"body": "moved", "replacement_room": others}))
	w.eventually("the tombstone", func() bool {
		return w.bot.rooms.update(mine, func(*room) {}).replacedBy == others
	})
	_, err = w.send(mine, "t1", "secret")
	if failed := w.wantClass(err, ClassBlock); !strings.Contains(failed.Reason, "does not name it as its predecessor") {
		t.Errorf("reason %q", failed.Reason)
	}
	w.eventually("nothing is pending", func() bool {
		_, pending := w.bot.joins.Of(others)
		return !pending
	})
	if w.heard.has("replaced " + mine + " " + others)() {
		t.Error("the messages go to the room of others")
	}
}

// TestTombstone_PublicRoom: a tombstone that names somebody's public room doesn't keep the bot there, whether anybody may read
// that room or only its members may.
func TestTombstone_PublicRoom(t *testing.T) {
	for _, visibility := range []string{"shared", "world_readable"} {
		t.Run(visibility, func(t *testing.T) {
			w := newWorld(t)
			w.connect()
			w.run(w.bot)
			mine := w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}})
			w.eventually("in the room", w.heard.has("joined "+mine))
			stranger, err := w.server.NewUser(w.ctx, w.name+"stranger", false)
			w.must(err)
			public, err := stranger.CreateRoom(w.ctx, "public", nil, map[string]any{"preset": "public_chat", "initial_state": []map[string]any{
				{"type": "m.room.history_visibility", "state_key": "", "content": map[string]any{"history_visibility": visibility}},
			}})
			w.must(err)
			w.must(w.owner.SetState(w.ctx, mine, "m.room.tombstone", map[string]any{"body": "moved", "replacement_room": public}))
			w.eventually("the tombstone", func() bool {
				return w.bot.rooms.update(mine, func(*room) {}).replacedBy == public
			})
			_, err = w.send(mine, "t1", "secret")
			w.wantClass(err, ClassBlock)
			w.eventually("nothing is pending", func() bool {
				_, pending := w.bot.joins.Of(public)
				return !pending
			})
			joined, err := w.bot.Joined(w.ctx)
			w.must(err)
			if slices.Contains(joined, public) {
				t.Error("the bot stays in the public room")
			}
			if visibility == "world_readable" && w.heard.has("joined "+public)() {
				t.Error("the bot joined a room that it could read")
			}
		})
	}
}

// A wrong tombstone doesn't block a room for good: a right one is followed, and without one the bot sends to the room again.
func TestFull_Tombstone_Corrected(t *testing.T) {
	w := newWorld(t)
	w.connect()
	w.run(w.bot)
	mine := w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}})
	w.eventually("in the room", w.heard.has("joined "+mine))
	wrong := w.ownersRoom(map[string]any{"preset": "public_chat"})
	tombstone := func(successor string) string {
		before := len(w.heard.all())
		var answer struct {
			EventID string `json:"event_id"`
		}
		content := map[string]any{"body": "moved", "replacement_room": successor}
		w.must(w.owner.Call(w.ctx, http.MethodPut, "/_matrix/client/v3/rooms/"+mine+"/state/m.room.tombstone/", content, &answer))
		w.eventually("the tombstone", func() bool { return slices.Contains(w.heard.all()[before:], "tombstone "+mine) })
		return answer.EventID
	}
	blocked := func(txn string) {
		t.Helper()
		_, err := w.send(mine, txn, "text")
		w.wantClass(err, ClassBlock)
	}
	sent := func(txn string) {
		t.Helper()
		_, err := w.send(mine, txn, "text")
		w.must(err)
	}
	tombstone(wrong)
	blocked("t1")
	tombstone("")
	sent("t2")
	id := tombstone(wrong)
	blocked("t3")
	w.must(w.owner.Call(w.ctx, http.MethodPut, "/_matrix/client/v3/rooms/"+mine+"/redact/"+id+"/r1", map[string]any{}, nil))
	sent("t4")
	tombstone(wrong)
	blocked("t5")
	right := w.ownersRoom(map[string]any{"preset": "public_chat", "creation_content": map[string]any{"predecessor": map[string]any{"room_id": mine, "event_id": id}}})
	tombstone(right)
	w.eventually("the right room", w.heard.has("replaced "+mine+" "+right))
}

func TestFull_FindReadsHistory(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	begin := time.Now()
	want, err := w.send(room, "needle", "find me")
	w.must(err)
	for i := range 120 { // more than a page
		_, err := w.send(room, fmt.Sprint("hay", i), "hay")
		w.must(err)
	}
	// Somebody else's copy of the marker proves nothing.
	_, err = w.owner.Send(w.ctx, room, "m.room.message", text("forged", "forged"))
	w.must(err)
	for marker, id := range map[string]string{"needle": want, "forged": "", "never": ""} {
		found, err := w.bot.Find(w.ctx, room, marker, begin)
		w.must(err)
		if found != (Found{EventID: id, Complete: true}) {
			t.Errorf("Find(%s) = %+v, want %s", marker, found, id)
		}
	}
}

// With the homeserver's own limits a burst is told to wait.
func TestFull_RealRateLimit(t *testing.T) {
	t.Parallel()
	server, err := servertest.StartSynapse(t.Context(), servertest.SynapseOptions{Dir: t.TempDir(), DefaultRateLimits: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	w := &world{T: t, ctx: t.Context(), server: server}
	w.must(server.CreateUser(w.ctx, "bot", "bot-password", false))
	w.bot, err = New(Options{Homeserver: server.URL, Username: "bot", Password: "bot-password", Store: newStore(t)})
	w.must(err)
	w.connect()
	room, err := w.bot.Create(w.ctx, NewRoom{Name: "x"})
	w.must(err)
	for i := range 30 {
		if _, err = w.send(room, fmt.Sprint(i), "x"); err != nil {
			break
		}
	}
	if failed := w.wantClass(err, ClassWait); failed.RetryAfter <= 0 || failed.RetryAfter > time.Minute {
		t.Errorf("wait %v", failed.RetryAfter)
	}
}

// What is no event, in an invitation or sent to the bot's device by a stranger, stops nothing.
func TestBrokenEventsAreLeftOut(t *testing.T) {
	w := newWorld(t)
	w.connect()
	w.run(w.bot)
	path := "/_matrix/client/v3/sendToDevice/x.y/" + w.name
	w.must(w.owner.Call(w.ctx, "PUT", path, map[string]any{"messages": map[string]any{w.bot.UserID(): map[string]any{"*": map[string]any{"a": 1}}}}, nil))
	room := w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}})
	w.eventually("in the room", w.heard.has("joined "+room))

	var a syncAnswer
	w.must(json.Unmarshal([]byte(`{"next_batch":"n","to_device":{"events":[{"type":"a","content":"text"},{"type":"b","content":{}}]},
		"rooms":{"invite":{"!a:hs":{"invite_state":{"events":[7,{"type":"m.room.member","state_key":"@bot:hs","sender":"@o:hs","content":{"membership":"invite"}}]}}},
		"join":{"!b:hs":{"timeline":{"events":[{"type":"m.room.name","state_key":1},{"type":"m.room.name","state_key":"","content":{"name":"x"}}]}}}}}`), &a))
	if a.NextBatch != "n" || len(a.ToDevice.Events) != 1 || len(a.Rooms.Invite["!a:hs"].State.Events) != 1 || len(a.Rooms.Join["!b:hs"].Timeline.Events) != 1 {
		t.Errorf("decoded %+v", a.RespSync)
	}
	if err := json.Unmarshal([]byte(`{"next_batch":7}`), &a); err == nil {
		t.Error("an answer that is none is taken")
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"Küche  \n 2":            "Küche 2",
		"a\x1b[31m\u202eb":       "a\uFFFD[31m\uFFFDb",
		"a\xffb":                 "a\uFFFDb",
		strings.Repeat("ö", 150): strings.Repeat("ö", 150),
		strings.Repeat("ö", 151): strings.Repeat("ö", 150) + "…",
	} {
		if got := line(text); got != want {
			t.Errorf("line(%q) = %q, want %q", text, got, want)
		}
	}
}
