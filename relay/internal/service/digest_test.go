package service_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
)

// quietened is an application with settings.
func quietened(t *testing.T, r *relaytest.Rig, in account.ApplicationInput) account.IssuedToken {
	t.Helper()
	app := r.NewApp("a", "!a:hs")
	if _, err := r.UpdateApplication(t.Context(), r.Admin, app.Application.ID, in); err != nil {
		t.Fatal(err)
	}
	return app
}

func send(t *testing.T, r *relaytest.Rig, token, text string, priority int) post.Accepted {
	t.Helper()
	return r.Send(post.Draft{Token: token, Content: post.Content{Body: text}, Priority: &priority})
}

// Of many messages the first is sent, the others are one digest, also across a restart. What is important passes.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		window := 10 * time.Minute
		app := quietened(t, r, account.ApplicationInput{Digest: &window})
		r.Start()
		first := send(t, r, app.Token, "first", 0)
		r.Await(first.ID, post.StateSent)
		collector := send(t, r, app.Token, "m1", 0)
		r.Await(collector.ID, post.StateSent)
		for i := 2; i <= 6; i++ {
			if a := send(t, r, app.Token, fmt.Sprintf("m%d", i), -1); a.ID != collector.ID {
				t.Errorf("m%d is message %d", i, a.ID)
			}
			if i == 3 {
				r.Drained()
				r.Recover()
			}
		}
		send(t, r, app.Token, "important", 1)
		r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "alert"}, Key: "k", Change: post.Update})
		r.Drained()
		time.Sleep(window)
		send(t, r, app.Token, "later", 0)
		r.Drained()
		got := r.HS.Bodies("!a:hs")
		text := strings.Join(got, "|")
		if got[0] != "first" || got[1] != "1 more message\n\nm1" || !strings.Contains(text, "|* 6 more messages\n\nm1\nm2\nm3\nm4\nm5\nm6|") || slices.Index(got, "important") > slices.Index(got, "alert") || !strings.Contains(text, "|important|") || !strings.HasSuffix(text, "|later") {
			t.Errorf("%q", got)
		}
		for _, body := range got {
			if strings.HasPrefix(body, "m") {
				t.Errorf("%q is a message of its own", body)
			}
		}
	})
}

// A withdrawn collector is followed by another one, which doesn't repeat what was withdrawn.
func TestFlood_Withdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		window := 10 * time.Minute
		app := quietened(t, r, account.ApplicationInput{Digest: &window})
		send(t, r, app.Token, "first", 0)
		collector := send(t, r, app.Token, "m1", 0)
		r.Withdraw(collector.ID)
		if next := send(t, r, app.Token, "m2", 0); next.ID == collector.ID {
			t.Error("it goes to the withdrawn message")
		}
		r.Start()
		r.Drained()
		if got := strings.Join(r.HS.Bodies("!a:hs"), "|"); got != "first|1 more message\n\nm2" {
			t.Errorf("%q", got)
		}
	})
}

// Messages of a digest have its id. An application may not withdraw or edit with one of them what others say; a user can.
func TestFlood_OneOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		window := 10 * time.Minute
		app := quietened(t, r, account.ApplicationInput{Digest: &window})
		sender := account.Principal{ApplicationID: app.Application.ID}
		r.Start()
		first := send(t, r, app.Token, "first", 0)
		alone := send(t, r, app.Token, "alone", 0)
		for _, text := range []string{"edited", "edited again"} {
			if _, err := r.Accept(t.Context(), post.Draft{Token: app.Token, Content: post.Content{Body: text}, Edits: alone.ID}); err != nil {
				t.Errorf("the only one, %s: %v", text, err)
			}
		}
		if _, err := r.Cancel(t.Context(), sender, alone.ID); err != nil {
			t.Errorf("the only one: %v", err)
		}
		digest := send(t, r, app.Token, "m1", 0)
		send(t, r, app.Token, "m2", 0)
		time.Sleep(2 * window) // also when another message has begun another window
		send(t, r, app.Token, "later", 0)
		if _, err := r.Cancel(t.Context(), sender, digest.ID); refusal.KindOf(err) != refusal.KindConflict || !strings.Contains(err.Error(), "digest") {
			t.Errorf("withdraw one of two: %v", err)
		}
		if _, err := r.Accept(t.Context(), post.Draft{Token: app.Token, Content: post.Content{Body: "edited"}, Edits: digest.ID}); refusal.KindOf(err) != refusal.KindConflict {
			t.Errorf("edit one of two: %v", err)
		}
		r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "by number"}, Key: "k", Names: digest.ID, Change: post.Update})
		if _, err := r.Cancel(t.Context(), sender, first.ID); err != nil {
			t.Errorf("one by itself: %v", err)
		}
		r.Drained()
		if got := strings.Join(r.HS.Bodies("!a:hs"), "|"); !strings.Contains(got, "2 more messages\n\nm1\nm2") || !strings.HasSuffix(got, "|by number") {
			t.Errorf("%q", got)
		}
		r.Withdraw(digest.ID)
		r.Await(digest.ID, post.StateRedacted)
	})
}

// Of the messages with a topic, such as a repository, the first collects the others, as plain text. Those without one are sent.
func TestFlood_Topics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		window := 10 * time.Minute
		app := quietened(t, r, account.ApplicationInput{RepositoryDigest: &window})
		r.Start()
		push := func(topic, body string) post.Accepted {
			return r.Send(post.Draft{Token: app.Token, Topic: topic, Content: post.Content{Body: body, ContentType: format.HTML}})
		}
		first := push("a", "<b>a1</b>")
		r.Await(first.ID, post.StateSent)
		push("b", "<b>b1</b>")
		if again := push("a", "<b>a2</b>"); again.ID != first.ID {
			t.Errorf("the second of a is message %d", again.ID)
		}
		for range 2 {
			send(t, r, app.Token, "no topic", 0)
		}
		r.Drained()
		if got := strings.Join(r.HS.Bodies("!a:hs"), "|"); got != "a1|b1|* a: 2 messages\n\na1\na2|no topic|no topic" {
			t.Errorf("%q", got)
		}
		if _, err := r.Cancel(t.Context(), account.Principal{ApplicationID: app.Application.ID}, first.ID); refusal.KindOf(err) != refusal.KindConflict {
			t.Errorf("the application withdraws both: %v", err)
		}
		r.Withdraw(first.ID)
		if next := push("a", "a3"); next.ID == first.ID {
			t.Error("it goes to the withdrawn message")
		}
		time.Sleep(window)
		push("a", "a4")
		r.Drained()
		if got := strings.Join(r.HS.Bodies("!a:hs"), "|"); !strings.HasSuffix(got, "|a3|a4") {
			t.Errorf("%q", got)
		}
	})
}

// A delayed message comes when it is due, also while a digest collects.
func TestFlood_Delayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t)
		window := 10 * time.Minute
		app := quietened(t, r, account.ApplicationInput{Digest: &window})
		r.Start()
		send(t, r, app.Token, "first", 0)
		r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "delayed"}, Later: time.Now().Add(time.Hour)})
		send(t, r, app.Token, "m1", 0)
		time.Sleep(time.Hour - time.Second)
		if got := strings.Join(r.HS.Bodies("!a:hs"), "|"); got != "first|1 more message\n\nm1" {
			t.Errorf("before: %q", got)
		}
		time.Sleep(10 * time.Second)
		if got := r.HS.Bodies("!a:hs"); len(got) != 3 || got[2] != "delayed" {
			t.Errorf("after: %q", got)
		}
	})
}

// In quiet hours priority 1 mentions nobody and 2 does. Afterwards one message lists the former, also if the relay was away.
func TestQuietHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it begins at 2000-01-01 00:00 UTC
		r := relaytest.NewRig(t)
		mentions := map[string]bool{}
		r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
			var c struct {
				Body     string `json:"body"`
				Mentions struct {
					Users []string `json:"user_ids"`
				} `json:"m.mentions"`
			}
			_ = json.Unmarshal(out.Content, &c)
			r.HS.Mu.Lock()
			defer r.HS.Mu.Unlock()
			mentions[c.Body] = len(c.Mentions.Users) > 0
			return nil
		}
		hours, zone, summary := "22:00-07:00", "Europe/Berlin", true
		app := quietened(t, r, account.ApplicationInput{QuietHours: &hours, TimeZone: &zone, QuietSummary: &summary})
		r.Start()
		for i, text := range []string{"low", "high", "highest"} {
			send(t, r, app.Token, text, i)
		}
		high := 1
		r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "later"}, Priority: &high, Later: time.Now().Add(6 * time.Hour)})
		withdrawn := send(t, r, app.Token, "withdrawn", 1)
		r.Await(withdrawn.ID, post.StateSent)
		r.Withdraw(withdrawn.ID)
		r.Await(withdrawn.ID, post.StateRedacted)
		r.Crash()
		time.Sleep(6*time.Hour + time.Minute) // 07:01 in Berlin
		r.Open()
		r.Start()
		time.Sleep(5 * time.Second)
		send(t, r, app.Token, "morning", 1)
		r.Drained()
		r.Recover()
		time.Sleep(5 * time.Second)
		r.Drained()
		want := map[string]bool{"low": false, "high": false, "highest": true, "later": true, "withdrawn": false, "Quiet hours\n\n1 message of priority 1 came in the quiet hours:\n01:00 high": true, "morning": true}
		if fmt.Sprint(mentions) != fmt.Sprint(want) || len(r.HS.Bodies("!a:hs")) != len(want)-1 {
			t.Errorf("%v\n%q", mentions, r.HS.Bodies("!a:hs"))
		}
	})
}

func TestNoise_Refused(t *testing.T) {
	r := relaytest.NewRig(t)
	app := r.NewApp("a", "!a:hs")
	text := func(s string) *string { return &s }
	period := func(d time.Duration) *time.Duration { return &d }
	for field, in := range map[string]account.ApplicationInput{
		"quiet_hours":     {QuietHours: text("22-7")},
		"time_zone":       {TimeZone: text("Mars/Base")},
		"digest":          {Digest: period(time.Millisecond)},
		"heartbeat":       {Heartbeat: period(59 * time.Second)},
		"heartbeat_grace": {HeartbeatGrace: period(1000 * time.Hour)},
	} {
		_, err := r.UpdateApplication(t.Context(), r.Admin, app.Application.ID, in)
		if refused := (*refusal.Error)(nil); refusal.KindOf(err) != refusal.KindInvalid || !asRefusal(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func asRefusal(err error, to **refusal.Error) bool { return errors.As(err, to) }
