package relay

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestCountsSurviveARestart(t *testing.T) {
	r := newRig(t)
	fault := class(ClassDead)
	r.hs.script = func(out Outgoing, _ int) *answer {
		if strings.Contains(string(out.Content), "wrong") {
			return &fault
		}
		return nil
	}
	app := r.app("a", "!a:hs")
	r.run()
	for range 20 {
		r.send(app.Token, "good")
	}
	r.await(r.send(app.Token, "wrong"), StateDead)
	for range 2 {
		a, err := r.Application(ctx, r.admin, app.Application.ID)
		if err != nil || a.Accepted != 21 || a.Sent != 20 || a.Dead != 1 || a.LastUsed.IsZero() {
			t.Errorf("%+v, %v", a, err)
		}
		r.close()
		r.open()
	}
	hours, err := r.Hours(ctx, r.admin)
	if err != nil {
		t.Fatal(err)
	}
	var sum Hour
	for _, h := range hours {
		sum.Accepted, sum.Sent, sum.Dead = sum.Accepted+h.Accepted, sum.Sent+h.Sent, sum.Dead+h.Dead
	}
	if sum.Accepted != 21 || sum.Sent != 20 || sum.Dead != 1 {
		t.Errorf("the last day: %+v", sum)
	}
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Retention = 10 * time.Hour })
		blocked := class(ClassBlock)
		r.hs.script = func(out Outgoing, _ int) *answer {
			if out.RoomID == "!p:hs" {
				return &blocked
			}
			return nil
		}
		good, bad := r.app("a", "!a:hs"), r.app("b", "!p:hs")
		r.run()
		waiting := r.send(bad.Token, "waits")
		var wg sync.WaitGroup
		for range 2*purgeBatch + 7 {
			wg.Go(func() { r.send(good.Token, "x") })
		}
		wg.Wait()
		time.Sleep(11 * time.Hour)
		young := r.send(good.Token, "young")
		r.await(young, StateSent)
		time.Sleep(maintainEvery)
		page, err := r.Messages(ctx, r.admin, MessageFilter{})
		var got []int64
		for _, m := range page.Messages {
			got = append(got, m.ID)
		}
		if err != nil || !slices.Equal(got, []int64{young, waiting}) {
			t.Errorf("after the retention: %v, %v; want %v", got, err, []int64{young, waiting})
		}
		r.close()
		r.open()
		if id := r.send(good.Token, "new"); id <= young {
			t.Errorf("the id %d was used before", id)
		}
	})
}
