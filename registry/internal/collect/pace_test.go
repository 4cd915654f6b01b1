package collect

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"slipway/registry/internal/driver"
	"slipway/registry/internal/driver/memory"
	"slipway/registry/internal/layout"
)

func TestRestAfter(t *testing.T) {
	for n, want := range map[int]time.Duration{1: 45 * time.Millisecond, 2: 20 * time.Millisecond, 10: 0, 64: 0} {
		if got := restAfter(5*time.Millisecond, n); got != want {
			t.Errorf("with %d processors: %s, want %s", n, got, want)
		}
	}
}

// A run rests only beside a server that has something to do, and not for what it
// waits.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{machine: 2}
		took := func(steps int, each time.Duration) time.Duration {
			start := time.Now()
			for range steps {
				time.Sleep(each)
				if err := p.step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(start) - time.Duration(steps)*each
		}
		if rest := took(100, time.Millisecond); rest != 0 {
			t.Errorf("alone it rests %s", rest)
		}
		busy := false
		p.begin(func(context.Context) bool { return busy })
		if rest := took(100, time.Millisecond); rest != 0 {
			t.Errorf("beside an idle server it rests %s", rest)
		}
		busy = true
		work := took(100, 500*time.Microsecond)
		waiting := took(5, time.Second)
		if work < restAfter(50*time.Millisecond, 2) || waiting > restAfter(spell, 1) {
			t.Errorf("it rests %s after work and %s after waiting", work, waiting)
		}
	})
}

// A command that lets more threads run than there are processors takes no more of
// the machine for it.
func TestRestIsThatOfTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n, want := range map[int]time.Duration{1: 450 * time.Millisecond, 5: 50 * time.Millisecond} {
			r := newRun(Options{Processors: n})
			r.pace.begin(func(context.Context) bool { return true })
			start := time.Now()
			for range 100 {
				time.Sleep(500 * time.Microsecond)
				if err := r.pace.step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if rest := time.Since(start) - 50*time.Millisecond; rest != want {
				t.Errorf("with %d processors it rests %s, want %s", n, rest, want)
			}
		}
	})
}

// A run rests beside a server that comes after it began, too, unless it keeps
// servers waiting.
func TestOnlyWhoIsAloneNeverRests(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(t *testing.T, d driver.Driver)
		rests  bool
	}{
		"alone": {func(*testing.T, driver.Driver) {}, false},
		"a server has come meanwhile": {func(t *testing.T, d driver.Driver) {
			leave, err := d.Serve(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(leave)
		}, true},
		"a run was killed before": {func(t *testing.T, d driver.Driver) {
			if err := d.WriteScratch(t.Context(), layout.AsideRoot+"/x", nil); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{Options: Options{Driver: memory.New()}}
			if err := r.setLimit(t.Context()); err != nil {
				t.Fatal(err)
			}
			tt.before(t, r.Driver)
			if err := r.beAlone(t.Context()); err != nil {
				t.Fatal(err)
			}
			if rests := r.pace.busy != nil; rests != tt.rests {
				t.Errorf("it rests: %v", rests)
			}
			r.endAlone()
			if r.pace.busy == nil {
				t.Error("it does not rest when others were let in")
			}
		})
	}
}
