package schedule

import (
	"context"
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
