package delivery_test

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
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

		FallingBack bool `json:"is_falling_back"`
		InReplyTo   struct {
			EventID string `json:"event_id"`
		} `json:"m.in_reply_to"`
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

// says posts what an application says of an alert.
func says(t *testing.T, r *relaytest.Rig, token, text string, change post.Change) int64 {
	t.Helper()
	return r.Send(post.Draft{Token: token, Content: post.Content{Title: "Disk", Body: text}, Key: "disk", Change: change}).ID
}

// A change edits the message of its alert. One that overtakes the message replaces it; a repeat says nothing; the end has a mark.
// Much later the alert starts over.
func TestAlert_Edit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		sent := contents(r)
		app := r.NewApp("a", "!a:hs")
		first := says(t, r, app.Token, "80 %", post.Update)
		again := says(t, r, app.Token, "90 %", post.Update) // the message still waits
		r.Start()
		r.Await(first, post.StateSent)
		says(t, r, app.Token, "90 %", post.Update)
		time.Sleep(5 * time.Minute)
		says(t, r, app.Token, "95 %", post.Update)
		r.Drained()
		over := says(t, r, app.Token, "10 %", post.Resolve)
		r.Drained()
		time.Sleep(20 * time.Minute)
		second := says(t, r, app.Token, "85 %", post.Update)
		r.Await(second, post.StateSent)
		r.Drained()
		if again != first || over != first || second == first {
			t.Errorf("messages %d, %d, %d, %d", first, again, over, second)
		}
		event := r.Stored(first).EventID
		wants := []string{"Disk\n\n90 %", "Disk\n\n95 %", "✅ Disk\n\n✅ Resolved after 5 min.\n\n10 %", "Disk\n\n85 %"}
		for i, want := range wants {
			got, edit := sent()[i], i == 1 || i == 2
			if edit && (got.Relation.Type != "m.replace" || got.Relation.EventID != event || got.New.Body != want || got.Body != "* "+want) || !edit && (got.Body != want || got.Relation.Type != "") {
				t.Errorf("event %d: %+v", i, got)
			}
		}
		if n := len(sent()); n != len(wants) {
			t.Errorf("%d events", n)
		}
		if got, err := r.Application(ctx, r.Admin, app.Application.ID); err != nil || got.Accepted != 2 || got.Sent != 2 {
			t.Errorf("%d messages accepted, %d sent, %v", got.Accepted, got.Sent, err)
		}
	})
}

// A homeserver that is away finds one message with the last text, and one edit in place of several.
func TestAlert_Offline_IsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		app := r.NewApp("a", "!a:hs")
		r.Start()
		first := says(t, r, app.Token, "80 %", post.Update)
		r.Await(first, post.StateSent)
		release := r.HS.Hold()
		another := r.Post(app.Token, "another")
		for _, text := range []string{"81 %", "82 %", "83 %"} {
			says(t, r, app.Token, text, post.Update)
		}
		says(t, r, app.Token, "10 %", post.Resolve)
		release()
		r.Await(another, post.StateSent)
		r.Drained()
		if got := strings.Join(r.HS.Bodies("!a:hs"), "|"); got != "Disk\n\n80 %|another|* ✅ Disk\n\n✅ Resolved.\n\n10 %" && got != "Disk\n\n80 %|another|* ✅ Disk\n\n✅ Resolved after 0 s.\n\n10 %" {
			t.Errorf("%q", got)
		}
	})
}

// An alert that changes while its message is being sent is edited, also if the answer to the attempt is lost or the relay is killed.
func TestAlert_ChangesDuringTheAttempt_IsEdited(t *testing.T) {
	for name, lost := range map[string]bool{"answered": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			relaytest.SQLiteOnly(t)
			r := relaytest.NewRig(t)
			app := r.NewApp("a", "!a:hs")
			r.Start()
			r.Await(r.Post(app.Token, "before"), post.StateSent)
			arrived, release := make(chan struct{}), make(chan struct{})
			r.HS.Script = func(_ matrix.Outgoing, n int) *relaytest.Answer {
				if n == 1 {
					close(arrived)
					<-release
				}
				return nil
			}
			id := says(t, r, app.Token, "80 %", post.Update)
			<-arrived
			says(t, r, app.Token, "90 %", post.Update)
			r.HS.Do(func() { r.HS.Script = nil })
			if lost {
				killed := filepath.Join(t.TempDir(), "relay.db")
				err := r.Options.Store.Update(ctx, func(*store.Tx) error { return r.CopyDatabase(killed) })
				if err != nil {
					t.Fatal(err)
				}
				close(release)
				r.Crash()
				r.Path = killed
				r.Open()
				r.Start()
			} else {
				close(release)
			}
			r.Await(id, post.StateSent)
			r.Drained()
			if got := strings.Join(r.HS.Bodies("!a:hs"), "|"); !strings.HasSuffix(got, "|* Disk\n\n90 %") {
				t.Errorf("%q", got)
			}
		})
	}
}

// In the life cycle thread changes are replies, of which only a rising priority rings; an escalation of an edited one rings as well.
func TestAlert_Replies(t *testing.T) {
	for _, lifecycle := range []post.Lifecycle{"thread", "edit", "new"} {
		t.Run(string(lifecycle), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := relaytest.NewRig(t)
				sent := contents(r)
				app := r.NewApp("a", "!a:hs")
				r.Set(app.Application.ID, account.ApplicationInput{Lifecycle: &lifecycle})
				r.Start()
				submit := func(text string, priority int, change post.Change) {
					t.Helper()
					a := r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: text}, Key: "disk", Change: change, Priority: &priority})
					r.Await(a.ID, post.StateSent)
					r.Drained()
				}
				submit("80 %", 0, post.Update)
				submit("90 %", 1, post.Update)
				submit("91 %", 1, post.Update)
				submit("10 %", 0, post.Resolve)
				var got []string
				for _, c := range sent() {
					got = append(got, c.Relation.Type+" "+c.Body)
				}
				want := map[post.Lifecycle]string{
					"thread": " 80 %|m.thread 90 %|m.thread 91 %|m.thread ✅ Resolved",
					"edit":   " 80 %|m.replace * 90 %|m.thread 90 %|m.replace * 91 %|m.replace * ✅ Resolved",
					"new":    " 80 %| 90 %| 91 %| ✅ Resolved",
				}[lifecycle]
				if all := strings.Join(got, "|"); !strings.HasPrefix(all, want) {
					t.Errorf("%s", all)
				}
				for _, c := range sent() {
					if c.Relation.Type == "m.thread" && (c.Relation.EventID == "" || c.Relation.InReplyTo.EventID == "" || !c.Relation.FallingBack) {
						t.Errorf("%+v", c)
					}
				}
			})
		})
	}
}

// A message of the sender's is edited by its id; one that waits is replaced, one that is withdrawn or another application's isn't.
func TestEdit_ByID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		app, other := r.NewApp("a", "!a:hs"), r.NewApp("b", "!b:hs")
		edit := func(token string, id int64, text string) error {
			a, err := r.Accept(ctx, post.Draft{Token: token, Content: post.Content{Body: text}, Edits: id})
			if err == nil && a.ID != id {
				t.Errorf("it is %d, not %d", a.ID, id)
			}
			return err
		}
		id := r.Post(app.Token, "one")
		if err := edit(app.Token, id, "two"); err != nil {
			t.Fatal(err)
		}
		r.Start()
		r.Await(id, post.StateSent)
		if err := edit(app.Token, id, "three"); err != nil {
			t.Fatal(err)
		}
		if err := edit(other.Token, id, "x"); refusal.KindOf(err) != refusal.KindNotFound {
			t.Error(err)
		}
		r.Drained()
		if got := strings.Join(r.HS.Bodies("!a:hs"), "|"); got != "two|* three" {
			t.Errorf("%q", got)
		}
		if m := r.Stored(id); m.Body != "three" {
			t.Errorf("it says %q", m.Body)
		}
		r.Withdraw(id)
		r.Drained()
		if err := edit(app.Token, id, "four"); refusal.KindOf(err) != refusal.KindConflict {
			t.Error(err)
		}
	})
}

// A message that was withdrawn doesn't come back with the next repeat, but with the next alert.
func TestAlert_Withdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		app := r.NewApp("a", "!a:hs")
		r.Start()
		began := time.Now()
		submit := func() post.Accepted {
			t.Helper()
			return r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "hot"}, Key: "k", Change: post.Update, Began: began})
		}
		first := submit()
		r.Await(first.ID, post.StateSent)
		r.Withdraw(first.ID)
		if a := submit(); !a.Replay || a.ID != first.ID {
			t.Errorf("%+v", a)
		}
		began = began.Add(time.Minute)
		next := submit()
		if next.Replay || next.ID == first.ID {
			t.Errorf("%+v", next)
		}
		r.Withdraw(next.ID)
		began = time.Time{} // the report may be one of another time
		if a := submit(); a.Replay || a.ID == next.ID {
			t.Errorf("%+v", a)
		}
	})
}

// Messages of a thread relate to the first of them that is in the room, also after a restart, and with their file;
// those of another application, room or thread don't.
func TestThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		sent := contents(r)
		app, other := r.NewApp("a", "!a:hs"), r.NewApp("b", "!b:hs")
		submit := func(token, thread, text string) int64 {
			t.Helper()
			return r.Send(post.Draft{Token: token, Content: post.Content{Body: text}, Thread: thread}).ID
		}
		r.Start()
		withdrawn := submit(app.Token, "pr", "withdrawn")
		r.Await(withdrawn, post.StateSent)
		r.Withdraw(withdrawn)
		r.Drained()
		r.Await(withdrawn, post.StateRedacted)
		first := submit(app.Token, "pr", "pr0")
		r.Await(submit(app.Token, "pr", "pr1"), post.StateSent)
		r.Drained()
		submit(app.Token, "pr", "pr2")
		submit(app.Token, "", "none")
		submit(app.Token, "other", "other")
		r.Await(submit(other.Token, "pr", "elsewhere"), post.StateSent)
		r.Drained()
		r.Restart()
		r.Await(submit(app.Token, "pr", strings.Repeat("long\n\n", 40<<10)), post.StateSent)
		r.Drained()
		var got []string
		root := ""
		for _, c := range sent() {
			body := c.Body[strings.LastIndex(c.Body[:min(len(c.Body), 14)], "\n")+1:]
			got = append(got, body[:min(4, len(body))]+" "+c.Relation.Type)
			if c.Relation.Type == "m.thread" {
				root = cmp.Or(root, c.Relation.EventID)
				if c.Relation.EventID != root || c.Relation.InReplyTo.EventID != root || !c.Relation.FallingBack {
					t.Errorf("%s: %+v", body, c.Relation)
				}
			}
		}
		slices.Sort(got)
		want := []string{"else ", "long m.thread", "mess m.thread", "none ", "othe ", "pr0 ", "pr1 m.thread", "pr2 m.thread", "with "}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if m := r.Stored(first); m.EventID != root {
			t.Errorf("the root is %s, the first message %s", root, m.EventID)
		}
	})
}

// The alerts of a group share a thread until all of them are over.
func TestThread_OfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		sent := contents(r)
		app, yes := r.NewApp("a", "!a:hs"), true
		r.Set(app.Application.ID, account.ApplicationInput{GroupThreads: &yes})
		r.Start()
		submit := func(key string, change post.Change) {
			t.Helper()
			a := r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: key}, Key: key, Change: change, Group: "g"})
			r.Await(a.ID, post.StateSent)
			r.Drained()
		}
		submit("one", post.Update)
		submit("two", post.Update)
		submit("one", post.Resolve)
		time.Sleep(time.Hour)
		submit("three", post.Update)
		submit("two", post.Resolve)
		submit("three", post.Resolve)
		time.Sleep(time.Hour)
		submit("one", post.Update)
		var got []string
		for _, c := range sent() {
			if c.Relation.Type != "m.replace" {
				got = append(got, c.Body+c.Relation.Type)
			}
		}
		if all := strings.Join(got, " "); all != "one twom.thread threem.thread one" {
			t.Error(all)
		}
	})
}
