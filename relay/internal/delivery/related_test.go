package delivery_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/intake"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/outbox"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/store"
)

// related is the content of an edit or a reaction.
type related struct {
	Body     string `json:"body"`
	Relation struct {
		Type    string `json:"rel_type"`
		EventID string `json:"event_id"`
		Key     string `json:"key"`
	} `json:"m.relates_to"`
	New struct {
		Body string `json:"body"`
	} `json:"m.new_content"`
}

// contents records what is sent, and drops the answer to the first attempt at each edit.
func contents(r *relaytest.Rig) func() []related {
	var all []related
	seen := map[string]bool{}
	r.HS.Script = func(out matrix.Outgoing, n int) *relaytest.Answer {
		var c related
		_ = json.Unmarshal(out.Content, &c)
		r.HS.Mu.Lock()
		defer r.HS.Mu.Unlock()
		if !seen[out.TxnID] {
			seen[out.TxnID], all = true, append(all, c)
		}
		if c.Relation.Type != "" && n == 1 {
			return &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: true}
		}
		return nil
	}
	return func() []related {
		r.HS.Mu.Lock()
		defer r.HS.Mu.Unlock()
		return all
	}
}

// An update edits the message of its key, also one that is sent only after both were read; after a resolve the key starts over.
func TestEdit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		sent := contents(r)
		app := r.NewApp("a", "!a:hs")
		post := func(text string, change intake.Change) int64 {
			t.Helper()
			a, err := r.Accept(ctx, intake.Request{Token: app.Token, Message: text, Key: "disk", Change: change})
			if err != nil {
				t.Fatal(err)
			}
			return a.ID
		}
		first := post("disk 80 %", intake.Update) // nothing to update yet
		again := post("disk 90 %", intake.Update)
		r.Start()
		r.Await(first, outbox.StateSent)
		over := post("disk 10 %", intake.Resolve)
		second := post("disk 85 %", intake.Update)
		r.Await(second, outbox.StateSent)
		r.Drained()
		if again != first || over != first || second == first {
			t.Errorf("messages %d, %d, %d, %d", first, again, over, second)
		}
		event := r.Stored(first).EventID
		for i, want := range []related{{Body: "disk 80 %"}, {Body: "disk 90 %"}, {Body: "disk 10 %"}, {Body: "disk 85 %"}} {
			got := sent()[i]
			if edit := i == 1 || i == 2; got.Body != want.Body || edit != (got.Relation.Type == "m.replace" && got.Relation.EventID == event && got.New.Body == want.Body) {
				t.Errorf("event %d: %+v", i, got)
			}
		}
		if n := len(sent()); n != 4 {
			t.Errorf("%d events", n)
		}
		if got, err := r.Application(ctx, r.Admin, app.Application.ID); err != nil || got.Accepted != 2 || got.Sent != 2 {
			t.Errorf("%d messages accepted, %d sent, %v", got.Accepted, got.Sent, err)
		}
	})
}

// An edit of a message that was refused is given up: the message keeps its reason, and later ones are sent.
func TestEdit_MessageIsNotInTheRoom_IsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer {
			r.HS.Script = nil
			a := relaytest.Fails(matrix.ClassDead)
			return &a
		}
		app := r.NewApp("a", "!a:hs")
		var id int64
		for _, text := range []string{"one", "two"} {
			a, err := r.Accept(ctx, intake.Request{Token: app.Token, Message: text, Key: "k", Change: intake.Update})
			if err != nil {
				t.Fatal(err)
			}
			id = a.ID
		}
		next := r.Post(app.Token, "next")
		r.Start()
		r.Await(next, outbox.StateSent)
		r.Drained()
		if m := r.Stored(id); m.State != outbox.StateDead || !strings.Contains(m.Error, "because of") {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
	})
}

func TestReaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		sent := contents(r)
		r.Start()
		synctest.Wait()
		id := r.Post(r.NewApp("a", "!a:hs").Token, "text")
		m := r.Await(id, outbox.StateSent)
		e := outbox.Entry{
			Kind: outbox.Reaction, Target: id, Origin: outbox.Origin{Room: m.RoomRow, ApplicationID: m.ApplicationID, AcceptedAt: time.Now().UnixMilli()},
			Content: outbox.Content{Body: "✅"}, QueuedAt: time.Now().UnixMilli(),
		}
		if err := r.Options.Store.Accept(ctx, &store.Accept{Entry: e}); err != nil {
			t.Fatal(err)
		}
		r.Drained()
		if all := sent(); len(all) != 2 || all[1].Relation.Type != "m.annotation" || all[1].Relation.Key != "✅" || all[1].Relation.EventID != m.EventID {
			t.Errorf("%+v", all)
		}
	})
}
