package delivery_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// While a message is being sent others of its room are committed. They aren't read from the database, unless something has changed.
func TestMessages_CommittedMeanwhile(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *relaytest.Rig, app account.IssuedToken, next int64)
		want   []string // what follows the first message
	}{
		{"nothing changes", func(r *relaytest.Rig, _ account.IssuedToken, _ int64) {
			if !r.Options.Store.Shared() {
				r.Exec(`UPDATE outbox SET body = 'from the database' WHERE body = 'second'`) // behind the relay's back
			}
		}, []string{"second", "third"}},
		{"one is withdrawn", func(r *relaytest.Rig, _ account.IssuedToken, next int64) { r.Withdraw(next) }, []string{"third"}},
		{"one is edited", func(r *relaytest.Rig, app account.IssuedToken, next int64) {
			r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "better"}, Edits: next})
		}, []string{"better", "third"}},
		{"the application is deleted", func(r *relaytest.Rig, app account.IssuedToken, _ int64) {
			if err := r.DeleteApplication(ctx, r.Admin, app.Application.ID); err != nil {
				t.Error(err)
			}
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := relaytest.NewRig(t)
			sending, goOn := make(chan struct{}), make(chan struct{})
			r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
				if strings.Contains(string(out.Content), `"first"`) {
					close(sending)
					<-goOn
				}
				return nil
			}
			r.Start()
			app := r.NewApp("a", "!a:hs")
			r.Await(r.Post(app.Token, "of a room that is known"), post.StateSent)
			r.Post(app.Token, "first")
			<-sending
			next := r.Post(app.Token, "second")
			r.Post(app.Token, "third")
			tt.change(r, app, next)
			close(goOn)
			r.Drained()
			if got := r.HS.Bodies("!a:hs")[2:]; !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Messages mention whom their application is set to when they are committed, also if they aren't read from the database.
func TestMessages_OfAnApplicationThatChanges(t *testing.T) {
	r := relaytest.NewRig(t)
	var got []string
	r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
		var c struct {
			Mentions struct {
				Users []string `json:"user_ids"`
			} `json:"m.mentions"`
		}
		_ = json.Unmarshal(out.Content, &c)
		r.HS.Do(func() { got = append(got, strings.Join(c.Mentions.Users, " ")) })
		return nil
	}
	r.Start()
	app := r.NewApp("a", "!a:hs")
	var want []string
	for _, choice := range []string{"@anna:hs", "@bob:hs", "@anna:hs @bob:hs"} {
		r.Set(app.Application.ID, account.ApplicationInput{Mention: &choice})
		for range 3 {
			r.Await(r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "m"}, Priority: p(1)}).ID, post.StateSent)
			want = append(want, choice)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
