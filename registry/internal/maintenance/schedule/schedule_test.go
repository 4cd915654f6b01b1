package schedule

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"slipway/shared/tracing"
)

func TestEvery(t *testing.T) {
	for _, interval := range []time.Duration{0, 10 * time.Second, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			start, runs := time.Now(), []time.Duration{}
			go Every(ctx, interval, nil, nil, func(context.Context, string) {
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
			go Every(ctx, 2*time.Second, slot, nil, func(context.Context, string) {
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
		none.Begin("gc", "").Enter("nothing")
		if got := none.Jobs(); got != nil {
			t.Errorf("no board: %v", got)
		}
		b := &Board{}
		start := time.Now()
		b.Plan("gc", time.Minute)
		b.Plan("verify", time.Minute)
		time.Sleep(time.Second)
		b.Begin("gc", "")
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

// A job runs at once when somebody asks, without a schedule too, and one that is
// running or about to run can't be asked for.
func TestBoard_Ask(t *testing.T) {
	for _, interval := range []time.Duration{OnlyAsked, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			b, slot := &Board{}, NewSlot()
			if err := b.Ask("gc", "alice"); !errors.Is(err, ErrNoJob) {
				t.Errorf("an unknown job: %v", err)
			}
			var runs []string
			b.Plan("gc", 0)
			go Every(ctx, interval, slot, b.Asked("gc"), func(_ context.Context, by string) {
				b.Begin("gc", by)
				runs = append(runs, by)
				time.Sleep(time.Minute)
				b.End("gc", false)
			})
			time.Sleep(2 * time.Hour) // the first run by the schedule is over
			synctest.Wait()
			scheduled := len(runs)
			slot <- struct{}{} // another job is running
			if err := b.Ask("gc", "alice"); err != nil {
				t.Error(err)
			}
			for range 2 {
				synctest.Wait()
				if err := b.Ask("gc", "bob"); !errors.Is(err, ErrRunning) {
					t.Errorf("asked for twice: %v", err)
				}
			}
			if j := b.Jobs()[0]; !j.Asked || !j.Begun.IsZero() {
				t.Errorf("while it waits: %+v", j)
			}
			<-slot
			synctest.Wait()
			if j := b.Jobs()[0]; j.Asked || j.Begun.IsZero() || j.By != "alice" || j.Done == nil {
				t.Errorf("while it runs: %+v", j)
			}
			if err := b.Ask("gc", "bob"); !errors.Is(err, ErrRunning) {
				t.Errorf("asked for while it runs: %v", err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if j := b.Jobs()[0]; !j.Begun.IsZero() || j.Done != nil || j.By != "" {
				t.Errorf("when it has ended: %+v", j)
			}
			if got := runs[scheduled:]; !slices.Equal(got, []string{"alice"}) || scheduled != 0 != (interval > 0) {
				t.Errorf("%v: %d runs by the schedule, then %q", interval, scheduled, got)
			}
			cancel()
			synctest.Wait()
		})
	}
}

// A request while a run by the schedule waits for its slot leads to that run, and not to a second one.
func TestBoard_AskWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, runs := &Board{}, 0
		b.Plan("gc", time.Hour)
		if err := b.Ask("gc", "alice"); err != nil {
			t.Fatal(err)
		}
		b.Begin("gc", "") // by the schedule
		b.End("gc", false)
		select {
		case <-b.Asked("gc"):
			runs++
		default:
		}
		if err := b.Ask("gc", "bob"); err != nil || runs != 0 {
			t.Errorf("%d more runs, asked again: %v", runs, err)
		}
		b.Refuse("gc", "another replica does it")
		if j := b.Jobs()[0]; j.Asked || j.Did != "another replica does it" || j.Ended.IsZero() {
			t.Errorf("refused: %+v", j)
		}
	})
}

// A run is a span with one for each of its phases.
func TestTrace(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	defer tracing.Use(sdk.NewTracerProvider(sdk.WithSyncer(spans)))()
	var b Board
	done := b.Begin(Verify, "")
	done.Enter("reading blobs")
	done.Enter("checking links")
	b.End(Verify, true)
	all := spans.GetSpans()
	if len(all) != 3 {
		t.Fatalf("%v", all)
	}
	run := all[2]
	if run.Name != Verify || run.Status.Code != codes.Error {
		t.Errorf("%v", run)
	}
	for i, name := range []string{"reading blobs", "checking links"} {
		if all[i].Name != name || all[i].Parent.SpanID() != run.SpanContext.SpanID() {
			t.Errorf("%v", all[i])
		}
	}
	(&Progress{}).Enter("of a command")
}
