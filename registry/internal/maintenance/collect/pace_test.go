package collect

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestRestAfter(t *testing.T) {
	for n, want := range map[int]time.Duration{1: 45 * time.Millisecond, 2: 20 * time.Millisecond, 10: 0, 64: 0} {
		if got := restAfter(5*time.Millisecond, n); got != want {
			t.Errorf("with %d processors: %s, want %s", n, got, want)
		}
	}
}

// A run rests only if it is paced, and not for what it waits.
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
			t.Errorf("unpaced it rests %s", rest)
		}
		p.on, p.last = true, time.Now()
		work := took(100, 500*time.Microsecond)
		waiting := took(5, time.Second)
		if work < restAfter(50*time.Millisecond, 2) || waiting > restAfter(spell, 1) {
			t.Errorf("it rests %s after work and %s after waiting", work, waiting)
		}
	})
}
