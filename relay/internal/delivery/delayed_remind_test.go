package delivery_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// The time of reminders doesn't run before their message is in the room: while it is delayed, also by a later report, or while the
// homeserver is away.
func TestDelayed_Reminders(t *testing.T) {
	const remind = "m.thread Nobody has acknowledged this yet. React with ✅ to acknowledge it. @admin:hs"
	high, normal := 2, 0
	critical := func(token string) post.Draft {
		return post.Draft{Token: token, Content: post.Content{Body: "no backup"}, Priority: &high, Key: "switch", Change: post.Update, Retry: time.Minute, Expire: 3 * time.Minute}
	}
	later := func(d post.Draft, after time.Duration) post.Draft {
		d.Later = time.Now().Add(after)
		return d
	}
	reminded := []string{"no backup @admin:hs", "m.annotation ✅", remind, remind, "m.replace * Nobody acknowledged it in time."}
	for name, tt := range map[string]struct {
		send func(r *relaytest.Rig, token string)
		want []string
	}{
		"delayed": {func(r *relaytest.Rig, token string) { r.Send(later(critical(token), 5*time.Hour)) }, reminded},
		"moved": {func(r *relaytest.Rig, token string) {
			r.Send(later(critical(token), time.Hour))
			time.Sleep(30 * time.Minute)
			r.Send(later(critical(token), 5*time.Hour))
		}, reminded},
		"sent at once": {func(r *relaytest.Rig, token string) {
			d := critical(token)
			d.Priority, d.Retry = &normal, 0
			r.Send(later(d, time.Hour))
			time.Sleep(30 * time.Minute)
			r.Send(critical(token))
		}, reminded},
		"no more critical": {func(r *relaytest.Rig, token string) {
			r.Send(later(critical(token), time.Hour))
			time.Sleep(30 * time.Minute)
			d := critical(token)
			d.Priority, d.Retry = &normal, 0
			r.Send(later(d, time.Hour))
		}, []string{"no backup"}},
		"stopped": {func(r *relaytest.Rig, token string) {
			_ = r.StopReminding(ctx, r.Admin, r.Send(later(critical(token), time.Hour)).ID)
		}, []string{"no backup @admin:hs"}},
		"withdrawn": {func(r *relaytest.Rig, token string) {
			r.Withdraw(r.Send(later(critical(token), time.Hour)).ID)
		}, nil},
		"homeserver away": {func(r *relaytest.Rig, token string) {
			r.HS.Fail(&matrix.SendError{Class: matrix.ClassAway, Reason: "away"})
			r.Send(critical(token))
			time.Sleep(time.Hour)
			r.HS.Fail(nil)
		}, reminded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				relaytest.SQLiteOnly(t)
				r := relaytest.NewRig(t)
				r.HS.Strict = true
				app := r.NewApp("a", "!a:hs")
				r.Start()
				tt.send(r, app.Token)
				time.Sleep(6 * time.Hour)
				r.Drained()
				if got := inRoom(r, "!a:hs"); !slices.Equal(got, tt.want) {
					t.Errorf("%q, want %q", got, tt.want)
				}
			})
		})
	}
}
