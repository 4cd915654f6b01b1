package delivery_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// A message that is given up is a warning in the log, with its number and the reason.
func TestDead_Warns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.WarnLevel)
		r := relaytest.NewRig(t, func(o *service.Options) { o.Log = zap.New(core) })
		refused := relaytest.Fails(matrix.ClassDead)
		r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer { return &refused }
		r.Start()
		id := r.Post(r.NewApp("a", "!a:hs").Token, "x")
		time.Sleep(time.Minute)
		m := r.Stored(id)
		if m.State != post.StateDead {
			t.Fatalf("%+v", m)
		}
		lines := logged.FilterMessage("gave up on a message").All()
		if len(lines) != 1 || lines[0].ContextMap()["message"] != id || lines[0].ContextMap()["reason"] != m.Error {
			t.Errorf("logged %v, want message %d and %q", lines, id, m.Error)
		}
	})
}

// A message that was given up after an attempt without an answer, edited and delivered again ends with its new text, whether or not the
// attempt arrived and however long ago it was.
func TestDead_EditedAndRedelivered_HasTheNewText(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrived bool
		later   time.Duration
		want    []string
	}{
		{"it arrived", true, time.Minute, []string{"old", "* new"}},
		{"it didn't", false, time.Minute, []string{"old", "* new"}}, // a repeat under its transaction has the same bytes
		{"it arrived days ago", true, 48 * time.Hour, []string{"old", "* new"}},
		{"it didn't days ago", false, 48 * time.Hour, []string{"new"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				relaytest.SQLiteOnly(t)
				r := relaytest.NewRig(t)
				app := r.NewApp("a", "!a:hs")
				r.HS.Script = func(_ matrix.Outgoing, n int) *relaytest.Answer {
					if n > 1 {
						refused := relaytest.Fails(matrix.ClassDead)
						return &refused
					}
					return &relaytest.Answer{Store: tt.arrived, Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "The answer was lost."}}
				}
				r.Start()
				id := r.Post(app.Token, "old")
				r.Await(id, post.StateDead)
				r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "new"}, Edits: id})
				time.Sleep(tt.later)
				r.HS.Do(func() { r.HS.Script = nil })
				if _, err := r.Redeliver(ctx, r.Admin, id); err != nil {
					t.Fatal(err)
				}
				r.Await(id, post.StateSent)
				r.Drained()
				if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, tt.want) {
					t.Errorf("the room has %q, want %q", got, tt.want)
				}
			})
		})
	}
}
