package delivery_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// alarm posts a message of priority 2 that asks to be acknowledged.
func alarm(t *testing.T, r *relaytest.Rig, token string, retry, expire time.Duration) int64 {
	t.Helper()
	priority := 2
	return r.Send(post.Draft{Token: token, Content: post.Content{Body: "the database is down"}, Priority: &priority, Retry: retry, Expire: expire}).ID
}

// inRoom returns what was sent to a room: the type of relation, the text, and who is mentioned by name.
func inRoom(r *relaytest.Rig, room string) (all []string) {
	for _, out := range r.HS.Sent() {
		var c struct {
			Body     string `json:"body"`
			Mentions struct {
				Users []string `json:"user_ids"`
			} `json:"m.mentions"`
			Relation struct {
				Type string `json:"rel_type"`
				Key  string `json:"key"`
			} `json:"m.relates_to"`
		}
		if out.RoomID == room && json.Unmarshal(out.Content, &c) == nil {
			body, _, _ := strings.Cut(c.Body, "\n")
			all = append(all, strings.TrimSpace(c.Relation.Type+" "+c.Relation.Key+body+" "+strings.Join(c.Mentions.Users, "+")))
		}
	}
	return all
}

// A message is repeated as a reply that mentions people until somebody acknowledges it, also after a kill; others are alerted after
// a while.
func TestAcknowledge_RemindsUntilSomebodyReacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relaytest.SQLiteOnly(t)
		events := make(chan matrix.Event)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Events = events })
		r.HS.Strict = true
		app := r.NewApp("a", "!a:hs")
		r.NewApp("night", "!night:hs")
		after, to := 1, "@bob:hs, !night:hs"
		r.Set(app.Application.ID, account.ApplicationInput{EscalateAfter: &after, EscalateTo: &to})
		r.Start()
		id := alarm(t, r, app.Token, time.Minute, time.Hour)
		r.Await(id, post.StateSent)
		time.Sleep(90 * time.Second)
		r.Kill()
		r.Open()
		r.Start()
		time.Sleep(2 * time.Minute)
		r.Drained()
		const remind = "Nobody has acknowledged this yet. React with ✅ to acknowledge it."
		want := []string{"the database is down @admin:hs", "m.annotation ✅", "m.thread " + remind + " @admin:hs", "m.thread @bob:hs: " + remind + " @bob:hs"}
		if got := inRoom(r, "!a:hs"); strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q", got)
		}
		if got := inRoom(r, "!night:hs"); len(got) != 1 || got[0] != "a @admin:hs" || r.HS.Bodies("!night:hs")[0] != "a\n\n"+remind+"\n\nthe database is down" {
			t.Errorf("%q, %q", got, r.HS.Bodies("!night:hs"))
		}
		event := r.Stored(id).EventID
		for _, e := range []matrix.Reaction{{Room: "!a:hs", Event: event, Sender: "@carl:hs", Key: "👍"}, {Room: "!b:hs", Event: event, Sender: "@carl:hs", Key: "✅"}, {Room: "!a:hs", Event: "$other", Sender: "@carl:hs", Key: "✅"}} {
			events <- e
		}
		events <- matrix.Synced{}
		if a, err := r.Alert(ctx, r.Admin, id); err != nil || a == nil || a.AcknowledgedAt != 0 {
			t.Fatalf("%+v, %v", a, err)
		}
		events <- matrix.Reaction{Room: "!a:hs", Event: event, Sender: "@carl:hs", Key: "✅\uFE0F"}
		events <- matrix.Reaction{Room: "!a:hs", Event: event, Sender: "@dora:hs", Key: "✅"}
		events <- matrix.Synced{}
		r.Drained()
		sent := len(r.HS.Sent())
		time.Sleep(10 * time.Minute)
		r.Drained()
		if n := len(r.HS.Sent()); n != sent {
			t.Errorf("%d events after it was acknowledged", n-sent)
		}
		got := inRoom(r, "!a:hs")
		if last := got[len(got)-1]; last != "m.replace * Acknowledged by @carl:hs." {
			t.Errorf("%q", got)
		}
		a, err := r.Alert(ctx, r.Admin, id)
		if err != nil || a.AcknowledgedBy != "@carl:hs" || a.ClosedAt == 0 || a.Repeats != 3 {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// Reminders end with their time, with a withdrawal and by the sender's wish; a homeserver that is away doesn't get several at once.
func TestAcknowledge_Ends(t *testing.T) {
	for name, tt := range map[string]struct {
		during func(r *relaytest.Rig, id int64) error
		events int // message, reaction, reminders, edit
	}{
		"expired":      {func(*relaytest.Rig, int64) error { return nil }, 1 + 1 + 4 + 1},
		"acknowledged": {func(r *relaytest.Rig, id int64) error { _, err := r.Acknowledge(ctx, r.Admin, id); return err }, 1 + 1 + 1 + 1},
		"stopped":      {func(r *relaytest.Rig, id int64) error { return r.StopReminding(ctx, r.Admin, id) }, 1 + 1 + 1},
		"withdrawn":    {func(r *relaytest.Rig, id int64) error { _, err := r.Cancel(ctx, r.Admin, id); return err }, 1 + 1 + 1},
		"away": {func(r *relaytest.Rig, _ int64) error {
			release := r.HS.Hold()
			time.Sleep(170 * time.Second) // not until a reminder is due
			release()
			return nil
		}, 1 + 1 + 2 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t)
				r.HS.Strict = true
				app := r.NewApp("a", "!a:hs")
				r.Start()
				id := alarm(t, r, app.Token, time.Minute, 5*time.Minute)
				r.Await(id, post.StateSent)
				time.Sleep(90 * time.Second)
				if err := tt.during(r, id); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				r.Drained()
				if got := inRoom(r, "!a:hs"); len(got) != tt.events {
					t.Errorf("%d events: %q", len(got), got)
				}
			})
		})
	}
}

// Reminders go on when the clock is set back.
func TestReminders_ClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.Strict = true
		app := r.NewApp("a", "!a:hs")
		r.Start()
		r.Await(alarm(t, r, app.Token, time.Minute, time.Hour), post.StateSent)
		r.Exec(`UPDATE alerts SET next_at = next_at + 100000000000, expires_at = expires_at + 100000000000`)
		time.Sleep(150 * time.Second)
		r.Drained()
		if got := strings.Join(inRoom(r, "!a:hs"), "|"); !strings.Contains(got, "Nobody has acknowledged this yet") {
			t.Errorf("%q", got)
		}
	})
}

// unheard is a bot whose sync leaves out a reaction.
type unheard struct{ service.Bot }

func (unheard) Run(ctx context.Context) { <-ctx.Done() }

func (unheard) Reactions(_ context.Context, room, event string) ([]matrix.Reaction, error) {
	return []matrix.Reaction{{Room: room, Event: event, Sender: "@a:hs", Key: "👍"}, {Room: room, Event: event, Sender: "@b:hs", Key: "✅"}}, nil
}

// Before a reminder the homeserver is asked for reactions that sync has left out.
func TestAcknowledge_Unheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Bot = unheard{} })
		r.HS.Strict = true
		app := r.NewApp("a", "!a:hs")
		r.Start()
		id := alarm(t, r, app.Token, time.Minute, time.Hour)
		r.Await(id, post.StateSent)
		time.Sleep(2 * time.Minute)
		r.Drained()
		if got := strings.Join(inRoom(r, "!a:hs"), "|"); got != "the database is down @admin:hs|m.annotation ✅|m.replace * Acknowledged by @b:hs." {
			t.Errorf("%q", got)
		}
	})
}

// deaf is a bot whose homeserver doesn't answer questions about reactions.
type deaf struct{ unheard }

func (deaf) Reactions(ctx context.Context, _, _ string) ([]matrix.Reaction, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A homeserver that doesn't say who has reacted delays the reminders of many alerts no more than that of one.
func TestReminders_HomeserverDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Bot = deaf{} })
		app := r.NewApp("a", "!a:hs")
		r.Start()
		const alerts = 10
		for range alerts {
			alarm(t, r, app.Token, time.Minute, time.Hour)
		}
		time.Sleep(90 * time.Second)
		r.Drained()
		n := 0
		for _, body := range r.HS.Bodies("!a:hs") {
			if strings.Contains(body, "Nobody has acknowledged this yet") {
				n++
			}
		}
		if n != alerts {
			t.Errorf("%d reminders", n)
		}
	})
}
