package schedule

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestEvery(t *testing.T) {
	for _, interval := range []time.Duration{0, 10 * time.Second, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			start, runs := time.Now(), []time.Duration{}
			go Every(ctx, interval, nil, func(context.Context) {
				runs = append(runs, time.Since(start))
				time.Sleep(time.Minute)
			})
			every := max(interval, time.Second)
			time.Sleep(Soon + 3*(every+time.Minute))
			cancel()
			time.Sleep(time.Minute)
			synctest.Wait() // what runs has ended
			if len(runs) < 3 || runs[0] >= min(every, Soon) || runs[1]-runs[0] != every+time.Minute {
				t.Errorf("%v: it ran after %v", interval, runs)
			}
		})
	}
}

// Two jobs of one slot never run together, and a job that waits for the slot
// ends with the context.
func TestSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		slot := NewSlot()
		var mu sync.Mutex
		running, runs := 0, map[int]int{}
		for i := range 3 {
			go Every(ctx, 2*time.Second, slot, func(context.Context) {
				mu.Lock()
				running++
				runs[i]++
				if running > 1 {
					t.Error("two jobs run together")
				}
				mu.Unlock()
				time.Sleep(5 * time.Second)
				mu.Lock()
				running--
				mu.Unlock()
			})
		}
		time.Sleep(5 * time.Minute)
		cancel()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for i := range 3 {
			if runs[i] < 10 {
				t.Errorf("job %d ran %d times", i, runs[i])
			}
		}
	})
}

func TestBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *Board
		none.Plan("gc", time.Hour)
		none.Begin("gc")
		if got := none.Jobs(); got != nil {
			t.Errorf("no board: %v", got)
		}
		b := &Board{}
		start := time.Now()
		b.Plan("gc", time.Minute)
		b.Plan("verify", time.Minute)
		time.Sleep(time.Second)
		b.Begin("gc")
		time.Sleep(time.Second)
		b.Note("gc", "freed", 7)
		if got := b.Jobs()[0]; got.Begun != start.Add(time.Second) || !got.Ended.IsZero() {
			t.Errorf("while it runs: %+v", got)
		}
		b.End("gc", true)
		b.Plan("gc", time.Hour)
		want := []Job{
			{Name: "gc", Next: start.Add(time.Hour + 2*time.Second), Ended: start.Add(2 * time.Second), Took: time.Second, Failed: true, Did: "freed", Bytes: 7},
			{Name: "verify", Next: start.Add(time.Minute)},
		}
		if got := b.Jobs(); !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
