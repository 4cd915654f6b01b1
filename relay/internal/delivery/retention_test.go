package delivery_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

func TestCountsSurviveARestart(t *testing.T) {
	r := relaytest.NewRig(t)
	fault := relaytest.Fails(matrix.ClassDead)
	r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
		if strings.Contains(string(out.Content), "wrong") {
			return &fault
		}
		return nil
	}
	app := r.NewApp("a", "!a:hs")
	r.Start()
	for range 20 {
		r.Post(app.Token, "good")
	}
	r.Await(r.Post(app.Token, "wrong"), post.StateDead)
	for range 2 {
		a, err := r.Application(ctx, r.Admin, app.Application.ID)
		if err != nil || a.Accepted != 21 || a.Sent != 20 || a.Dead != 1 || a.LastUsed.IsZero() {
			t.Errorf("%+v, %v", a, err)
		}
		r.Shutdown()
		r.Open()
	}
	hours, err := r.Hours(ctx, r.Admin)
	if err != nil {
		t.Fatal(err)
	}
	var sum service.Hour
	for _, h := range hours {
		sum.Accepted, sum.Sent, sum.Dead = sum.Accepted+h.Accepted, sum.Sent+h.Sent, sum.Dead+h.Dead
	}
	if sum.Accepted != 21 || sum.Sent != 20 || sum.Dead != 1 {
		t.Errorf("the last day: %+v", sum)
	}
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, func(o *service.Options) { o.Retention = 10 * time.Hour })
		blocked := relaytest.Fails(matrix.ClassBlock)
		r.HS.Script = func(out matrix.Outgoing, _ int) *relaytest.Answer {
			if out.RoomID == "!p:hs" {
				return &blocked
			}
			return nil
		}
		good, bad := r.NewApp("a", "!a:hs"), r.NewApp("b", "!p:hs")
		r.Start()
		waiting := r.Post(bad.Token, "waits")
		var wg sync.WaitGroup
		for range 2*service.PurgeBatch + 7 {
			wg.Go(func() { r.Post(good.Token, "x") })
		}
		wg.Wait()
		time.Sleep(11 * time.Hour)
		young := r.Post(good.Token, "young")
		r.Await(young, post.StateSent)
		time.Sleep(service.MaintenanceInterval)
		page, err := r.Messages(ctx, r.Admin, service.Filter{})
		var got []int64
		for _, m := range page.Messages {
			got = append(got, m.ID)
		}
		if err != nil || !slices.Equal(got, []int64{young, waiting}) {
			t.Errorf("after the retention: %v, %v; want %v", got, err, []int64{young, waiting})
		}
		r.Shutdown()
		r.Open()
		if id := r.Post(good.Token, "new"); id <= young {
			t.Errorf("the id %d was used before", id)
		}
	})
}
