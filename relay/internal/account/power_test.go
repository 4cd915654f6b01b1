package account_test

import (
	"encoding/json"
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
	"slipway/relay/internal/store"
)

// An application can do no more in a room than its owner: a member who may not write there has no right to it.
func TestRight_NeedsThePowerToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan matrix.Event)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Events = events })
		anna := r.NewPerson("anna", "@anna:hs")
		r.HS.SetRights("!mute:hs", "@anna:hs", matrix.Rights{})
		_, err := r.CreateApplication(ctx, anna, account.ApplicationInput{Name: p("mute"), Room: p("!mute:hs")})
		if refusal.KindOf(err) != refusal.KindForbidden || refused(err).Field != "room_id" {
			t.Errorf("an application in a room where its owner may not write: %v", err)
		}
		app, err := r.CreateApplication(ctx, anna, account.ApplicationInput{Name: p("a"), Room: p("!a:hs")})
		if err != nil {
			t.Fatal(err)
		}
		r.Start()
		send := func() error {
			_, err := r.Accept(ctx, post.Draft{Token: app.Token, Content: post.Content{Body: "x"}, Source: "test"})
			return err
		}
		change := func(rights matrix.Rights) {
			r.HS.SetRights("!a:hs", "@anna:hs", rights)
			events <- matrix.PowerLevels{Room: "!a:hs"}
			time.Sleep(time.Second)
		}
		if err := send(); err != nil {
			t.Errorf("with the power to write: %v", err)
		}
		change(matrix.Rights{})
		if err := send(); refusal.KindOf(err) != refusal.KindForbidden {
			t.Errorf("without it: %v", err)
		}
		events <- matrix.Member{Room: "!a:hs", User: "@anna:hs", Membership: "join"} // again
		time.Sleep(time.Second)
		if err := send(); refusal.KindOf(err) != refusal.KindForbidden {
			t.Errorf("without it, after joining again: %v", err)
		}
		change(matrix.Rights{Write: true})
		if err := send(); err != nil {
			t.Errorf("with it again: %v", err)
		}
	})
}

// A message mentions the whole room only if its application's owner may.
func TestRight_NeedsThePowerToNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan matrix.Event)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Events = events })
		app, err := r.CreateApplication(ctx, r.NewPerson("anna", "@anna:hs"), account.ApplicationInput{Name: p("a"), Room: p("!a:hs"), Mention: p("room")})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var sent []json.RawMessage
		r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, out.Content)
			return nil
		}
		r.Start()
		mentions := func() (room bool, users int) {
			a, err := r.Accept(ctx, post.Draft{Token: app.Token, Content: post.Content{Body: "x"}, Priority: p(2), Source: "test"})
			if err != nil {
				t.Fatal(err)
			}
			m, err := r.Wait(ctx, account.Principal{ApplicationID: a.ApplicationID}, a.ID, time.Minute)
			if err != nil || m.State != post.StateSent {
				t.Fatal(m.State, err)
			}
			mu.Lock()
			defer mu.Unlock()
			return mentionsOf(t, sent[len(sent)-1])
		}
		if room, _ := mentions(); !room {
			t.Error("with the power: the room isn't mentioned")
		}
		r.HS.SetRights("!a:hs", "@anna:hs", matrix.Rights{Write: true})
		events <- matrix.PowerLevels{Room: "!a:hs"}
		time.Sleep(time.Second)
		if room, users := mentions(); room || users != 1 {
			t.Errorf("without it: room %v, %d users, want the owner alone", room, users)
		}
		r.Shutdown() // what waits is read from the database
		r.Open()
		if _, err := r.Accept(ctx, post.Draft{Token: app.Token, Content: post.Content{Body: "x"}, Priority: p(2), Source: "test"}); err != nil {
			t.Fatal(err)
		}
		r.Shutdown()
		r.Open()
		r.Start()
		if room, users := mentions(); room || users != 1 {
			t.Errorf("after a restart: room %v, %d users, want the owner alone", room, users)
		}
		if len(sent) != 4 {
			t.Fatalf("%d events, want 4", len(sent))
		}
		if room, users := mentionsOf(t, sent[2]); room || users != 1 {
			t.Errorf("read from the database: room %v, %d users, want the owner alone", room, users)
		}
	})
}

func mentionsOf(t *testing.T, content json.RawMessage) (room bool, users int) {
	t.Helper()
	var c struct {
		Mentions struct {
			Room  bool     `json:"room"`
			Users []string `json:"user_ids"`
		} `json:"m.mentions"`
	}
	if err := json.Unmarshal(content, &c); err != nil {
		t.Fatal(err)
	}
	return c.Mentions.Room, len(c.Mentions.Users)
}

// One application is read as fast among many as alone.
func TestApplication_ReadsOne(t *testing.T) {
	r := relaytest.NewRig(t)
	id := r.NewApp("one", "!a:hs").Application.ID
	read := func() float64 {
		return testing.AllocsPerRun(10, func() {
			if _, err := r.Application(ctx, r.Admin, id); err != nil {
				t.Fatal(err)
			}
		})
	}
	alone := read()
	for i := range 100 {
		r.NewApp("other "+string(rune('a'+i%26))+string(rune('a'+i/26)), "!"+string(rune('a'+i%26))+string(rune('a'+i/26))+":hs")
	}
	if among := read(); among > 2*alone {
		t.Errorf("%.0f allocations among 101 applications, %.0f alone", among, alone)
	}
}

// An imported application warns like any other about messages that alert nobody.
func TestImport_Mention(t *testing.T) {
	r := relaytest.NewRig(t)
	_, err := r.Import(ctx, r.Admin, &store.PushBits{Users: []store.PushBitsUser{{ID: 1, Name: "dora"}}, Applications: []store.PushBitsApplication{{UserID: 1, Name: "a", Token: "Aone", RoomID: "!a:hs"}}}, true)
	if err != nil {
		t.Fatal(err)
	}
	apps, err := r.Applications(ctx, r.Admin)
	if err != nil || len(apps) != 1 {
		t.Fatal(apps, err)
	}
	a := apps[0]
	a.RoomCheckedAt = time.Now()
	if a.Mention != "auto" || !a.Unheard() {
		t.Errorf("mentions %q, unheard %v: its owner has no Matrix ID and the bot may not notify the room", a.Mention, a.Unheard())
	}
}
